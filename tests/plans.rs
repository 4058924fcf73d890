//! Families of different kinds as TensorRT-RTX plans.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::Path;

use common::{case, names, plansmith, text};
use plansmith_engine::{Architecture, check_plan, manifest_path};
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
    let checked = check_plan(&plan, &manifest_path(&plan)).unwrap();
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
