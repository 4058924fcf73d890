//! Families of different kinds as TensorRT-RTX plans.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::Path;

use common::{case, names, plansmith, text};
use plansmith_engine::{Architecture, check_plan};
use serde_json::Value;

/// A case of each of ten families, and what TensorRT has to take of it.
const KINDS: [(&str, &str); 10] = [
    ("made_llama_yarn", "a scaled rotation"),
    ("made_gemma2_caps", "soft caps of scores and logits"),
    ("made_gemma3_text_two_ropes", "windows by layer, two rotations"),
    ("made_gpt2_by_layer", "learned positions, layer norms"),
    ("made_gpt_neox_rotary_pct", "part of the head rotated, parallel blocks"),
    ("made_bloom_six_heads", "ALiBi"),
    ("made_phi3_longrope", "a rotation that switches"),
    ("made_cohere_qk_norm", "neighbours rotated, norms that differ by head"),
    ("made_granite_swa_sinks", "sinks"),
    ("made_apertus_xielu", "xIELU"),
];

/// Exports for TensorRT in fp16 and builds for sm89; returns what `inspect` says of the plan.
fn built(name: &str, folder: &Path) -> Value {
    let (graphs, plans) = (folder.join("onnx"), folder.join("plans"));
    plansmith(&["export", text(&case(name)), "-o", text(&graphs), "--dialect", "tensorrt", "--dtype", "fp16"]).exits(0);
    let graph = names(&graphs).into_iter().find(|name| name.ends_with(".onnx")).unwrap();
    let profile = "decode:batch=1..1..2,sequence=1..8..32,past=0..8..31";
    plansmith(&["engine", text(&graphs.join(graph)), "-o", text(&plans), "--arch", "sm89", "--profile", profile]).exits(0);
    let plan = plans.join("sm89/decode.plan");
    let checked = check_plan(&plan).unwrap();
    assert_eq!(checked.manifest.architectures, [Architecture::Sm89], "{name}");
    serde_json::from_str(&plansmith(&["inspect", text(&plan), "--json"]).exits(0).stdout).unwrap()
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn ten_families_of_different_kinds_build_as_fp16_plans() {
    for (name, kind) in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let said = built(name, folder.path());
        let config: Value = serde_json::from_str(&std::fs::read_to_string(case(name).join("config.json")).unwrap()).unwrap();
        assert_eq!(said["architectures"], serde_json::json!(["sm89"]), "{name}: {kind}");
        let outputs = said["manifest"]["outputs"].as_array().unwrap();
        assert_eq!(outputs[0]["shape"][2], config["vocab_size"], "{name}: {kind}: {}", outputs[0]);
        let layers = ["num_hidden_layers", "n_layer"].iter().find_map(|key| config[key].as_u64()).unwrap();
        assert_eq!(outputs.len() as u64, 1 + 2 * layers, "{name}: {kind}");
    }
}

/// Graphs by other exporters of the checkpoint beside them.
const FOREIGN: [(&str, &str); 3] = [
    ("genai/model.onnx", "com.microsoft GroupQueryAttention"),
    ("genai_fp16/model.onnx", "com.microsoft RotaryEmbedding"),
    ("mobius.onnx", "com.microsoft GroupQueryAttention"),
];

#[test]
fn graphs_that_tensorrt_cannot_take_are_refused_at_once_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    for (name, operator) in FOREIGN {
        let start = std::time::Instant::now();
        let run = plansmith(&["engine", text(&exported(name)), "-o", text(folder.path()), "--arch", "sm89", "--profile", PROFILE]).exits(2);
        assert!(start.elapsed() < std::time::Duration::from_secs(2), "{name}: {:?}", start.elapsed());
        assert!(run.stderr.contains(&format!("({operator})")), "{}", run.stderr);
        assert!(run.stderr.contains("hint: write the graph from its checkpoint"), "{}", run.stderr);
        assert!(names(folder.path()).is_empty());
    }
}

const PROFILE: &str = "decode:batch=1..1..2,sequence=1..8..16,past=0..8..16";

fn exported(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/runtime/exported").join(name)
}

/// What the hint of the test above says, done.
#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn the_way_out_gives_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let (checkpoint, graphs) = (folder.path().join("checkpoint"), folder.path().join("onnx"));
    std::fs::create_dir(&checkpoint).unwrap();
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(exported(name), checkpoint.join(name)).unwrap();
    }
    for (more, plans) in [(&[][..], "stored"), (&["--dtype", "fp16"], "fp16")] {
        let graphs = graphs.join(plans);
        plansmith(&[&["export", text(&checkpoint), "-o", text(&graphs), "--dialect", "tensorrt"], more].concat()).exits(0);
        let graph = names(&graphs).into_iter().find(|name| name.ends_with(".onnx")).unwrap();
        let plans = folder.path().join(plans);
        plansmith(&["engine", text(&graphs.join(graph)), "-o", text(&plans), "--arch", "sm89", "--profile", PROFILE]).exits(0);
        let shown = plansmith(&["inspect", text(&plans.join("sm89/decode.plan"))]).exits(0).stdout;
        assert!(shown.contains("biggest first") && shown.contains("MATRIX_MULTIPLY") && shown.contains("/lm_head/Gemm"), "{shown}");
    }
}

/// A header as TensorRT-RTX 1.7.1.116 writes it, and nothing behind it.
fn header() -> Vec<u8> {
    let mut bytes = vec![0; 128];
    bytes[..4].copy_from_slice(b"vtrt");
    bytes[16..24].copy_from_slice(&128_u64.to_le_bytes());
    bytes[24..28].copy_from_slice(&[1, 7, 1, 0x74]);
    bytes[32..36].copy_from_slice(&0b1100_u32.to_le_bytes());
    bytes
}

#[test]
fn a_plan_without_manifest_is_its_header_and_what_is_no_plan_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("decode.plan");
    std::fs::write(&plan, header()).unwrap();
    let shown = plansmith(&["inspect", text(&plan)]).exits(0).stdout;
    assert!(shown.contains("header: flavour rtx, version 1.7.1.116, for sm86, sm89"), "{shown}");
    assert!(shown.contains("no manifest at") && shown.contains("header facts only"), "{shown}");
    let json: Value = serde_json::from_str(&plansmith(&["inspect", text(&plan), "--json"]).exits(0).stdout).unwrap();
    assert_eq!((&json["manifest"], &json["header"]["version"]), (&Value::Null, &Value::from("1.7.1.116")));

    for (bytes, wanted) in [
        (&header()[..100], "the header says the plan has 128 bytes; the file has 100"),
        (&header()[..40], "40 bytes are less than a plan's header of 64"),
        (&[b"PK\x03\x04".as_slice(), &[0; 100]].concat(), "not with `vtrt` (rtx) or `ftrt` (enterprise)"),
        (b"", "0 bytes are less than a plan's header of 64"),
    ] {
        std::fs::write(&plan, bytes).unwrap();
        let run = plansmith(&["inspect", text(&plan)]).exits(2);
        assert!(run.stderr.contains("is not a whole TensorRT plan") && run.stderr.contains(wanted), "{}", run.stderr);
    }
    std::fs::write(&plan, header()).unwrap();
    std::fs::write(plan.with_extension("json"), "{}").unwrap();
    let run = plansmith(&["inspect", text(&plan)]).exits(2);
    assert!(run.stderr.contains("decode.json` is not readable") && run.stderr.contains("missing field"), "{}", run.stderr);
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_bundle_ships_one_copy_of_the_weights_beside_a_plan_without() {
    let folder = tempfile::tempdir().unwrap();
    common::copy_files(&case("made_llama_head_dim"), &folder.path().join("model"));
    let pipeline = folder.path().join("pipeline.yaml");
    let lines = [
        "name: tiny",
        "source: { checkpoint: model }",
        "export: [{ id: fp16, dtype: fp16, dialect: tensorrt }]",
        "engines:",
        "  - from: fp16",
        "    architectures: [sm86]",
        "    weights: stripped",
        "    profiles: { decode: { batch: 1, sequence: 1, past: [0, 8, 32] } }",
        "output: dist",
    ];
    std::fs::write(&pipeline, lines.join("\n")).unwrap();
    plansmith(&["build", text(&pipeline)]).exits(0);
    let bundle = folder.path().join("dist");
    plansmith(&["check", text(&bundle)]).exits(0);
    let version = names(&bundle.join("engines")).remove(0);
    let plan = bundle.join("engines").join(version).join("sm86/decode.plan");
    let shown = plansmith(&["inspect", text(&plan)]).exits(0).stdout;
    let data = names(&bundle.join("onnx")).into_iter().find(|name| name.ends_with(".safetensors")).unwrap();
    assert!(shown.contains("weights are not in the plan") && shown.contains(&format!("../../../onnx/{data}")), "{shown}");

    // Another copy of the weights, of which bundle and plan know nothing.
    let data = bundle.join("onnx").join(data);
    let mut bytes = std::fs::read(&data).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&data, bytes).unwrap();
    plansmith(&["check", text(&bundle)]).exits(2);
    let error = check_plan(&plan).unwrap_err().to_string();
    assert!(error.contains("has the SHA-256"), "{error}");
}

#[test]
fn a_folder_in_the_place_of_a_plan_is_seen_before_anything_is_built() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["sm86/decode.plan", "sm86/decode.json"] {
        let out = folder.path().join(name.replace('/', "-"));
        std::fs::create_dir_all(out.join(name)).unwrap();
        let nowhere = ["--worker", "/nowhere", "--tensorrt-dir", "/nowhere"];
        let flags = ["engine", "testdata/engine/decoder.onnx", "-o", text(&out), "--arch", "sm86", "--profile", PROFILE, "--dry-run"];
        let run = plansmith(&[flags.as_slice(), &nowhere].concat()).exits(2);
        assert!(run.stderr.contains(&format!("{name}` is a folder")), "{}", run.stderr);
        assert_eq!(names(&out.join("sm86")).len(), 1);
    }
}

#[test]
fn a_profile_that_one_plan_makes_too_long_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    plansmith(&["export", "testdata/cases/llama3_rope", "-o", text(folder.path()), "--dtype", "fp16", "--dialect", "tensorrt"]).exits(0);
    let graph = folder.path().join("model_fp16.onnx");
    let profiles = ["--profile", "p:batch=1,sequence=4096,past=0", "--profile", "d:batch=1,sequence=1,past=0..5..4095"];
    let flags = [&["engine", text(&graph), "--dry-run", "--arch", "sm86"], profiles.as_slice()].concat();
    plansmith(&flags).exits(0);
    let refused = plansmith(&[flags.as_slice(), &["--profiles-as", "one-plan"]].concat()).exits(2).stderr;
    assert!(refused.contains("4097 tokens") && refused.contains("take plan-each, or one step less"), "{refused}");
}
