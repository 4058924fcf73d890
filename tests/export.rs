//! Exports as files: what is written, what is read, what is refused.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use common::{case, command, copy_files, names, plansmith, run, text};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::{Map, Value, json};

#[test]
fn an_export_in_place_writes_the_graph_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    copy_files(&case("llama3_rope"), folder.path());
    let weights = folder.path().join("model.safetensors");
    let (before, list) = (std::fs::read(&weights).unwrap(), names(folder.path()));
    let run = plansmith(&["export", text(folder.path()), "-o", text(folder.path())]).exits(0);
    assert!(run.stdout.contains("used in place"), "{}", run.stdout);
    let mut expected = [list, vec!["model.onnx".to_owned()]].concat();
    expected.sort();
    assert_eq!(names(folder.path()), expected);
    assert_eq!(std::fs::read(&weights).unwrap(), before);
}

/// A one-layer llama whose weights are a hole of 600 MB in a sparse file.
fn sparse_checkpoint(folder: &Path) {
    let (vocab, hidden, intermediate) = (262_144u64, 512u64, 1024u64);
    let config = serde_json::json!({
        "model_type": "llama", "vocab_size": vocab, "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": 1,
        "num_attention_heads": 8, "num_key_value_heads": 8, "tie_word_embeddings": true,
    });
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let layer = |part: &str| format!("model.layers.0.{part}.weight");
    let mut shapes = vec![("model.embed_tokens.weight".to_owned(), vec![vocab, hidden]), ("model.norm.weight".to_owned(), vec![hidden])];
    for part in ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"] {
        shapes.push((layer(part), vec![hidden, hidden]));
    }
    shapes.push((layer("mlp.gate_proj"), vec![intermediate, hidden]));
    shapes.push((layer("mlp.up_proj"), vec![intermediate, hidden]));
    shapes.push((layer("mlp.down_proj"), vec![hidden, intermediate]));
    shapes.push((layer("input_layernorm"), vec![hidden]));
    shapes.push((layer("post_attention_layernorm"), vec![hidden]));
    let (mut header, mut offset) = (serde_json::Map::new(), 0);
    for (name, shape) in shapes {
        let end = offset + 4 * shape.iter().product::<u64>();
        header.insert(name, serde_json::json!({ "dtype": "F32", "shape": shape, "data_offsets": [offset, end] }));
        offset = end;
    }
    let header = serde_json::Value::Object(header).to_string();
    let mut file = std::fs::File::create(folder.join("model.safetensors")).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.set_len(8 + header.len() as u64 + offset).unwrap();
}

#[test]
fn an_export_in_place_reads_no_payload() {
    let folder = tempfile::tempdir().unwrap();
    sparse_checkpoint(folder.path());
    let size = std::fs::metadata(folder.path().join("model.safetensors")).unwrap().len();
    assert!(size > 500_000_000);
    let mut child = command(&["--quiet", "export", text(folder.path()), "-o", text(folder.path())]).spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    // The process has ended but is not reaped yet: its accounts are final and still there.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    let accounts = std::fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap();
    assert!(child.wait().unwrap().success());
    let read: u64 = accounts.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap();
    assert!(read < 2_000_000, "{read} bytes were read of a {size} byte checkpoint");
    let graph = std::fs::metadata(folder.path().join("model.onnx")).unwrap().len();
    assert!(graph < 2_000_000, "the graph has {graph} bytes");
}

#[test]
fn a_copy_is_byte_identical_and_a_conversion_has_a_name_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let source = case("llama3_rope");
    let original = std::fs::read(source.join("model.safetensors")).unwrap();
    let out = folder.path().join("out");
    plansmith(&["export", text(&source), "-o", text(&out)]).exits(0);
    assert_eq!(names(&out), ["model.onnx", "model.safetensors"]);
    let copy = out.join("model.safetensors");
    assert_eq!(std::fs::read(&copy).unwrap(), original);
    let metadata = std::fs::symlink_metadata(&copy).unwrap();
    assert!(metadata.is_file() && metadata.nlink() == 1, "onnx's checker refuses links");
    plansmith(&["export", text(&source), "-o", text(&out), "--dtype", "fp16"]).exits(0);
    assert_eq!(names(&out), ["model.onnx", "model.safetensors", "model_fp16.onnx", "model_fp16.safetensors"]);
}

#[test]
fn weights_of_a_checkpoint_are_never_written_over() {
    let folder = tempfile::tempdir().unwrap();
    // A shard with the name that a conversion would have.
    let sharded = folder.path().join("sharded");
    copy_files(&case("llama3_rope"), &sharded);
    let original = std::fs::read(sharded.join("model.safetensors")).unwrap();
    std::fs::rename(sharded.join("model.safetensors"), sharded.join("model_fp16.safetensors")).unwrap();
    let header: Map<String, Value> =
        serde_json::from_slice(&original[8..8 + u64::from_le_bytes(original[..8].try_into().unwrap()) as usize]).unwrap();
    let map: Map<String, Value> =
        header.keys().filter(|key| *key != "__metadata__").map(|key| (key.clone(), "model_fp16.safetensors".into())).collect();
    std::fs::write(sharded.join("model.safetensors.index.json"), json!({ "metadata": {}, "weight_map": map }).to_string()).unwrap();
    plansmith(&["export", text(&sharded), "-o", text(&sharded), "--dtype", "fp16"]).exits(0);
    assert_eq!(std::fs::read(sharded.join("model_fp16.safetensors")).unwrap(), original);
    plansmith(&["verify", text(&sharded), "--onnx", text(&sharded.join("model_fp16.onnx"))]).exits(0);
    // Another checkpoint where a copy would go.
    let other = folder.path().join("other");
    copy_files(&case("made_qwen3_window"), &other);
    let before = std::fs::read(other.join("model.safetensors")).unwrap();
    let run = plansmith(&["export", text(&case("llama3_rope")), "-o", text(&other)]).exits(2);
    assert!(run.stderr.contains("would be replaced") && run.stderr.contains("\nhint: "), "{}", run.stderr);
    assert_eq!(std::fs::read(other.join("model.safetensors")).unwrap(), before);
    assert!(!other.join("model.onnx").exists());
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (case("llama3_rope"), folder.path().join("out"));
    for (flags, said) in [
        (&["--weights", "in-place"][..], "is not the checkpoint's folder"),
        (&["--dtype", "int4"], "int8 and int4 are not written yet"),
        (&["--kv", "static", "--dialect", "onnxruntime"], "a static cache and the dialect onnxruntime do not go together"),
        (&["--kv", "static", "--opset", "23"], "opset 23 has no TensorScatter"),
        (&["--dialect", "onnxruntime", "--opset", "21"], "the dialect onnxruntime is written in opset 23 only, not in 21"),
        (&["--opset", "22"], "opset 22 is not written"),
    ] {
        let run = plansmith(&[&["export", text(&source), "-o", text(&out)], flags].concat()).exits(2);
        assert!(run.stderr.contains(said) && run.stderr.contains("\nhint: "), "{}", run.stderr);
        assert!(!out.join("model.onnx").exists(), "{flags:?}");
    }
}

#[test]
fn links_of_a_hub_cache_are_followed_but_not_exported_beside() {
    let folder = tempfile::tempdir().unwrap();
    let (blobs, snapshot, out) = (folder.path().join("blobs"), folder.path().join("snapshot"), folder.path().join("out"));
    copy_files(&case("llama3_rope"), &blobs);
    std::fs::create_dir(&snapshot).unwrap();
    for name in names(&blobs) {
        std::os::unix::fs::symlink(blobs.join(&name), snapshot.join(&name)).unwrap();
    }
    let run = plansmith(&["export", text(&snapshot), "-o", text(&snapshot)]).exits(2);
    assert!(run.stderr.contains("is a symbolic link"), "{}", run.stderr);
    plansmith(&["export", text(&snapshot), "-o", text(&out)]).exits(0);
    plansmith(&["verify", text(&snapshot), "--onnx", text(&out.join("model.onnx"))]).exits(0);
}

#[test]
#[ignore = "needs the Python package onnx: run by cargo xtask test"]
fn onnx_checker_and_strict_shape_inference_accept_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let mut graphs = Vec::new();
    for name in ["llama3_rope", "llama_attention_bias", "made_qwen2_window", "made_qwen3_qk_norm", "made_llama_bf16"] {
        for (index, flags) in [
            &["--opset", "23"][..],
            &["--opset", "21"],
            &["--dtype", "fp16"],
            &["--dtype", "fp16", "--opset", "21", "--logits", "last"],
            &["--compute", "fp32", "--dialect", "tensorrt"],
            &["--dtype", "fp16", "--dialect", "tensorrt"],
            &["--dialect", "onnxruntime"],
        ]
        .into_iter()
        .enumerate()
        {
            let out = folder.path().join(format!("{name}-{index}"));
            plansmith(&[&["export", text(&case(name)), "-o", text(&out)], flags].concat()).exits(0);
            let graph = names(&out).into_iter().find(|name| name.ends_with(".onnx")).unwrap();
            graphs.push(out.join(graph));
        }
    }
    let python = std::env::var_os("PLANSMITH_PYTHON").expect("cargo xtask test sets PLANSMITH_PYTHON");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/check_graphs.py");
    let checked = run(std::process::Command::new(python).arg(script).args(&graphs)).exits(0);
    assert_eq!(checked.stdout.lines().count(), graphs.len(), "{}", checked.stdout);
}

/// Shapes follow from the checkpoint: four query heads share two key heads.
#[test]
fn key_heads_are_rows_of_the_batch_for_tensorrt_as_long_as_their_masks_stay_small() {
    let folder = tempfile::tempdir().unwrap();
    let query_of_attention = |flags: &[&str]| {
        let out = folder.path().join(flags.join("_"));
        plansmith(&[&["export", text(&case("llama3_rope")), "-o", text(&out), "--dtype", "fp16"], flags].concat()).exits(0);
        let graph = plansmith_onnx::load(&out.join("model_fp16.onnx")).unwrap().graph.unwrap();
        let operators = |name: &str| graph.node.iter().filter(|node| node.op_type() == name).cloned().collect::<Vec<_>>();
        let attention = operators("Attention");
        assert_eq!(attention.len(), 2, "{flags:?}");
        let made_by = graph.node.iter().find(|node| node.output.contains(&attention[0].input[0])).unwrap();
        let keys_are_cache = attention.iter().all(|node| graph.output.iter().any(|output| output.name() == node.input[1]));
        (made_by.op_type().to_owned(), keys_are_cache)
    };
    let (divided, whole) = (("Reshape".to_owned(), false), ("RotaryEmbedding".to_owned(), true));
    assert_eq!(query_of_attention(&["--dialect", "tensorrt"]), divided);
    assert_eq!(query_of_attention(&["--dialect", "portable"]), whole);
    // Two masks of two bytes an element are 1 GiB at 16384 tokens.
    assert_eq!(query_of_attention(&["--dialect", "tensorrt", "--max-length", "16384"]), divided);
    assert_eq!(query_of_attention(&["--dialect", "tensorrt", "--max-length", "16385"]), whole);
}

/// What TensorRT would derive anew in every node, and of a bool mask, is in the graph once.
#[test]
fn graphs_for_tensorrt_give_reshapes_every_size_and_add_the_masks_of_divided_rows() {
    let folder = tempfile::tempdir().unwrap();
    let graph = |dialect: &str, dtype: &str| {
        let out = folder.path().join([dialect, dtype].join("_"));
        plansmith(&["export", text(&case("llama3_rope")), "-o", text(&out), "--dtype", dtype, "--dialect", dialect]).exits(0);
        plansmith_onnx::load(&out.join(format!("model_{dtype}.onnx"))).unwrap().graph.unwrap()
    };
    let placeholders = |graph: &plansmith_onnx::proto::GraphProto| {
        let numbers = |name: &str| {
            let tensor = graph.initializer.iter().find(|tensor| tensor.name() == name)?;
            Some(tensor.raw_data().chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect::<Vec<_>>())
        };
        let made_by = |name: &str| graph.node.iter().find(|node| node.output.iter().any(|output| output == name));
        let shapes = graph.node.iter().filter(|node| node.op_type() == "Reshape").map(|node| node.input[1].as_str());
        let parts =
            shapes.flat_map(|shape| made_by(shape).map_or_else(|| vec![shape], |node| node.input.iter().map(String::as_str).collect()));
        parts.filter_map(numbers).flatten().filter(|&number| number < 1).count()
    };
    assert!(placeholders(&graph("portable", "fp16")) > 0);
    // The least of fp16, and -1e30 as bf16 rounds it.
    for (dtype, unseen) in [("fp16", 0xfbff_u16), ("bf16", 0xf14a)] {
        let graph = graph("tensorrt", dtype);
        assert_eq!(placeholders(&graph), 0, "{dtype}");
        let [mask] = &graph.node.iter().filter(|node| node.op_type() == "Where").collect::<Vec<_>>()[..] else { panic!("{dtype}") };
        let bits = |name: &str| {
            let tensor = graph.initializer.iter().find(|tensor| tensor.name() == name).unwrap();
            u16::from_le_bytes(tensor.raw_data().try_into().unwrap())
        };
        assert_eq!([bits(&mask.input[1]), bits(&mask.input[2])], [0, unseen], "{dtype}");
    }
}
