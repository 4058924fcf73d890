//! Graphs whose cache is written in place: right to the last slot, refused one past it, and wrong writes found.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::{Path, PathBuf};

use common::{Run, case, names, plansmith, text, words};
use plansmith_onnx::ModelProto;
use plansmith_onnx::proto::NodeProto;

/// A case for each thing that a cache of fixed length could get wrong, and the columns of its longest golden set: the cache has as many slots.
const KINDS: [(&str, &str, &str); 16] = [
    ("llama3_rope", "300", "grouped heads, a scaled rotation"),
    ("made_qwen2_window", "40", "windows in some layers, rows padded on the left"),
    ("made_mistral_window", "24", "a window in every layer"),
    ("gemma3_two_thetas", "60", "windows by layer, two rotations"),
    ("made_bloom_six_heads", "20", "ALiBi by attended tokens"),
    ("made_mpt_clip", "20", "ALiBi by column"),
    ("made_falcon_rw", "20", "ALiBi, fused projections"),
    ("gemma2_softcap_scalar", "40", "soft caps of scores and logits"),
    ("made_granite_swa_sinks", "24", "sinks"),
    ("phi3_partial_rotary", "40", "part of the head rotated"),
    ("made_gptj_rotary_dim", "20", "neighbours rotated"),
    ("gpt2_extra_buffers_noprefix", "24", "learned positions"),
    ("left_pad_batch", "12", "three rows padded on the left"),
    ("left_pad_gpt2", "12", "learned positions, padded on the left"),
    ("made_modernbert_decoder_thetas", "24", "windows on both sides of a rotation"),
    ("made_ministral3_query_scale", "24", "queries scaled by position"),
];

/// Exports `name` with a cache of `slots` slots; the folder and the graph in it.
fn exported(name: &str, slots: &str, flags: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (case(name), folder.path().join("out"));
    let arguments = ["export", text(&source), "-o", text(&out), "--kv", "static", "--max-length", slots];
    plansmith(&[&arguments, flags].concat()).exits(0);
    let graph = names(&out).into_iter().find(|name| name.ends_with(".onnx")).unwrap();
    (folder, out.join(graph))
}

fn verify(name: &str, graph: &Path, more: &[&str]) -> Run {
    let (source, golden) = (case(name), case(name).join("golden.safetensors"));
    let arguments = ["verify", text(&source), "--golden", text(&golden), "--onnx", text(graph), "--runtime", "ort"];
    plansmith(&[&arguments, more].concat())
}

/// The largest `max_rel` of the checks against transformers' logits.
fn worst(run: &Run) -> f64 {
    let lines = run.stdout.lines().filter(|line| line.contains(" golden "));
    let figures = lines.filter_map(|line| line.split("max_rel ").nth(1)?.split_whitespace().next()?.parse::<f64>().ok());
    figures.fold(0.0, f64::max)
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn every_kind_agrees_with_transformers_to_the_last_slot() {
    for (name, slots, kind) in KINDS {
        for flags in [&[][..], &["--dialect", "tensorrt"], &["--logits", "last"], &["--dtype", "fp16", "--dialect", "tensorrt"]] {
            let (_folder, graph) = exported(name, slots, flags);
            let run = verify(name, &graph, &[]).exits(0);
            for check in ["prefill", "chunked", "decode"] {
                let made = run.stdout.lines().any(|line| line.trim_start().starts_with(check) && line.contains(" golden    agree"));
                assert!(made, "{name} ({kind}) {flags:?}: {check}\n{}", run.stdout);
            }
            for check in ["padded", "masked_row", "cache"] {
                let made = run.stdout.lines().any(|line| line.trim_start().starts_with(check) && line.contains(" reference agree"));
                assert!(made, "{name} ({kind}) {flags:?}: {check}\n{}", run.stdout);
            }
            assert!(!run.stdout.contains("do not fit its static cache"), "{name} {flags:?}: {}", run.stdout);
            assert!(flags.contains(&"fp16") || worst(&run) <= 1e-4, "{name} ({kind}) {flags:?}: {}", run.stdout);
        }
    }
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn one_token_past_the_last_slot_is_refused_before_the_runtime_is_asked() {
    let (_folder, graph) = exported("llama3_rope", "24", &[]);
    let bench = |decode: &str| {
        plansmith(&["bench", text(&graph), "--runtime", "ort", "--prefill", "20", "--decode", decode, "--repeat", "1", "--json"])
    };
    let filled = bench("4").exits(0);
    assert!(filled.stdout.contains("\"decode_tokens\": 4"), "{}", filled.stdout);
    assert_eq!(
        bench("5").exits(2).stderr,
        "error: 25 tokens a row do not fit its static cache: max_length is 24\n\nhint: run fewer tokens, or export with a larger --max-length\n"
    );
    // A golden that is longer than the cache says which set it could not be compared on, and proves nothing.
    let run = verify("llama3_rope", &graph, &[]);
    assert!(run.stdout.contains("to set `p0` (300 tokens a row do not fit its static cache: max_length is 24)"), "{}", run.stdout);
}

/// Greedy text is that of the growing cache, up to the last slot and not beyond.
#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn run_generates_the_same_text_until_the_cache_is_full() {
    let (folder, graph) = exported("llama3_rope", "24", &[]);
    std::fs::write(graph.with_file_name("tokenizer.json"), words(256).to_string()).unwrap();
    plansmith(&["export", text(&case("llama3_rope")), "-o", text(&folder.path().join("out"))]).exits(0);
    let prompt = (0..16).map(|index| format!("t{}", (7 * index + 3) % 250 + 3)).collect::<Vec<_>>().join(" ");
    let run = |graph: &Path, tokens: &str| {
        plansmith(&["run", text(graph), "--prompt", &prompt, "--max-tokens", tokens, "--token-ids", "--runtime", "ort"])
    };
    // The last token that is chosen needs no slot.
    let growing = run(&graph.with_file_name("model.onnx"), "9").exits(0);
    assert_eq!(run(&graph, "9").exits(0).stdout, growing.stdout);
    let full = run(&graph, "10").exits(2);
    assert!(full.stderr.contains("25 tokens a row do not fit its static cache: max_length is 24"), "{}", full.stderr);
}

/// rten has no TensorScatter, and says so; where another runtime was named too, that one decides.
#[test]
fn a_runtime_without_the_operator_names_it() {
    let (_folder, graph) = exported("llama3_rope", "32", &[]);
    let run = plansmith(&["bench", text(&graph), "--runtime", "rten"]).exits(2);
    assert!(run.stderr.contains("rten cannot run") && run.stderr.contains("TensorScatter"), "{}", run.stderr);
    assert!(run.stderr.contains("hint: try --runtime ort"), "{}", run.stderr);
}

#[test]
fn a_static_cache_that_cannot_be_meant_is_refused() {
    let refusal = |name: &str, flags: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let run = plansmith(&[&["export", text(&case(name)), "-o", text(&out), "--kv", "static"], flags].concat()).exits(2);
        assert!(!out.exists(), "{name}: something was written");
        run.stderr
    };
    assert!(refusal("llama3_rope", &["--max-length", "0"]).contains("a static cache of max_length 0 cannot be: it has no slot"));
    assert!(refusal("llama3_rope", &["--opset", "23"]).contains("opset 23 has no TensorScatter"));
    let beyond = refusal("gpt2_extra_buffers_noprefix", &["--max-length", "129"]);
    assert!(beyond.contains("max_length 129 cannot be: the model's table of positions has 128"), "{beyond}");
}

/// A model of many positions would be given a cache that nobody asked for.
#[test]
fn a_cache_of_gigabytes_has_to_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (folder.path().join("model"), folder.path().join("out"));
    common::copy_files(&case("llama3_rope"), &source);
    let config = std::fs::read_to_string(source.join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
    config["max_position_embeddings"] = 10_000_000.into();
    std::fs::write(source.join("config.json"), config.to_string()).unwrap();
    let run = plansmith(&["export", text(&source), "-o", text(&out), "--kv", "static"]).exits(2);
    // 2 layers × (2 key heads × 16) × keys and values × 4 bytes × 10 million.
    assert!(run.stderr.contains("all 10000000 positions of the model takes 5120 MB a row"), "{}", run.stderr);
    assert!(run.stderr.contains("hint: pass --max-length N"), "{}", run.stderr);
    plansmith(&["export", text(&source), "-o", text(&out), "--kv", "static", "--max-length", "64"]).exits(0);
}

#[test]
fn the_graph_reads_like_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let source = case("made_llama_eps");
    let run = plansmith(&["--quiet", "export", text(&source), "-o", text(&out), "--kv", "static", "--max-length", "16", "--text"]).exits(0);
    let graph: Vec<&str> = run.stdout.lines().take_while(|line| !line.starts_with("weights ")).collect();
    insta::assert_snapshot!(graph.join("\n"));
}

fn node<'a>(nodes: &'a mut [NodeProto], operator: &str, nth: usize) -> &'a mut NodeProto {
    nodes.iter_mut().filter(|node| node.op_type() == operator).nth(nth).unwrap()
}

/// A node of the standard operators.
fn made(operator: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        name: Some(format!("/seeded/{output}")),
        op_type: Some(operator.to_owned()),
        input: inputs.iter().map(|&input| input.to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

/// A mistake in how the cache is written or read.
type Seed = fn(&mut Vec<NodeProto>);

const FAULTS: [(&str, Seed); 6] = [
    ("keys are written one slot too far", |nodes| shift(nodes, 0, "Add")),
    ("values are written one slot too early", |nodes| shift(nodes, 1, "Sub")),
    ("the last layer writes from slot 0 in every step", |nodes| {
        let count = nodes.iter().filter(|node| node.op_type() == "TensorScatter").count();
        nodes.insert(0, made("Sub", &["cache_position", "cache_position"], "from_zero"));
        node(nodes, "TensorScatter", count - 1).input[2] = "from_zero".to_owned();
    }),
    ("every slot is seen, those without a token too", |nodes| {
        let [seen, reach] = <[String; 2]>::try_from(node(nodes, "And", 0).input.clone()).unwrap();
        let at = nodes.iter().position(|node| node.op_type() == "And").unwrap();
        nodes.insert(at, made("Not", &[&reach], "unreached"));
        nodes.insert(at, made("Or", &[&reach, &seen], "seen_or_reached"));
        *node(nodes, "And", 0) = NodeProto {
            input: vec!["seen_or_reached".to_owned(), "unreached".to_owned()],
            op_type: Some("Or".to_owned()),
            ..node(nodes, "And", 0).clone()
        };
    }),
    ("padding is seen", |nodes| {
        let own = node(nodes, "Or", 0).input[1].clone();
        let at = nodes.iter().position(|node| node.op_type() == "Or").unwrap();
        nodes.insert(at, made("Not", &[&own], "others"));
        node(nodes, "Or", 0).input[0] = "others".to_owned();
    }),
    ("a token does not see the slot it was written to", |nodes| node(nodes, "LessOrEqual", 0).op_type = Some("Less".to_owned())),
];

fn shift(nodes: &mut Vec<NodeProto>, scatter: usize, operator: &str) {
    nodes.insert(0, made("Shape", &["cache_position"], "rows"));
    nodes.insert(1, made("Shape", &["rows"], "one"));
    nodes.insert(2, made(operator, &["cache_position", "one"], "shifted"));
    node(nodes, "TensorScatter", scatter).input[2] = "shifted".to_owned();
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn seeded_faults_of_writing_and_reading_are_found() {
    let (folder, graph) = exported("made_qwen2_window", "64", &[]);
    verify("made_qwen2_window", &graph, &[]).exits(0);
    let sound = plansmith_onnx::load(&graph).unwrap();
    for (fault, seed) in FAULTS {
        let mut model: ModelProto = sound.clone();
        seed(&mut model.graph.as_mut().unwrap().node);
        let path = folder.path().join("out/faulty.onnx");
        std::fs::write(&path, plansmith_onnx::encode(&model)).unwrap();
        let run = verify("made_qwen2_window", &path, &[]);
        // A write out of range is refused by the runtime itself.
        let out_of_range = run.stdout.contains("TensorScatter") && fault.contains("one slot");
        assert!(run.code == Some(1) || out_of_range && run.code == Some(2), "{fault}: {run:?}");
    }
}
