//! `verify --bisect` as a user meets it: a graph on disk with a fault, by us and by nobody that we know.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::{Path, PathBuf};

use common::{plansmith, text};
use serde_json::Value;

/// Exports the checkpoint, gives the model to `change`, and returns what verify says of it.
fn verdict(change: fn(&mut plansmith_onnx::ModelProto), runtime: &str) -> (String, Value) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/mutants/llama");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    plansmith(&["export", text(&source), "-o", text(&out)]).exits(0);
    let graph = out.join("model.onnx");
    let mut model = plansmith_onnx::load(&graph).unwrap();
    change(&mut model);
    std::fs::write(&graph, plansmith_onnx::encode(&model)).unwrap();
    let json: PathBuf = folder.path().join("verdict.json");
    let arguments = ["verify", text(&source), "--onnx", text(&graph), "--runtime", runtime, "--bisect", "--json", text(&json)];
    let run = plansmith(&arguments).exits(1);
    (run.stdout, serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap())
}

/// The MLP of layer 1 reads its weights from elsewhere: gate and up are swapped.
fn swap_gate_and_up(model: &mut plansmith_onnx::ModelProto) {
    for node in &mut model.graph.as_mut().unwrap().node {
        for input in &mut node.input {
            *input = match input.as_str() {
                "model.layers.1.mlp.gate_proj.weight" => "model.layers.1.mlp.up_proj.weight".to_owned(),
                "model.layers.1.mlp.up_proj.weight" => "model.layers.1.mlp.gate_proj.weight".to_owned(),
                _ => continue,
            };
        }
    }
}

fn swap_without_names(model: &mut plansmith_onnx::ModelProto) {
    swap_gate_and_up(model);
    model.metadata_props.clear();
    for node in &mut model.graph.as_mut().unwrap().node {
        node.name = None;
    }
}

fn layer_1_is_named(runtime: &str) {
    for change in [swap_gate_and_up, swap_without_names] {
        let (stdout, verdict) = verdict(change, runtime);
        let found = &verdict["candidates"][0]["first_divergence"];
        assert_eq!((found["layer"].as_u64(), found["block"].as_str()), (Some(1), Some("mlp")), "{stdout}");
        assert!(found["run"].as_str().unwrap().starts_with("prefill of set"), "{found}");
        assert!(found["max_rel"].as_f64().unwrap() > 0.1, "{found}");
        for side in ["source", "candidate"] {
            assert!(found[side]["std"].as_f64().unwrap() > 0.0 && found[side]["nonfinite"] == 0, "{found}");
        }
        assert!(stdout.contains("first differs at layer 1, mlp in prefill of set"), "{stdout}");
    }
}

#[test]
fn the_first_layer_and_block_are_named() {
    layer_1_is_named("rten");
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn the_first_layer_and_block_are_named_on_onnx_runtime() {
    layer_1_is_named("ort");
}

#[test]
fn causes_are_named_too() {
    let (stdout, verdict) = verdict(
        |model| {
            let node = model.graph.as_mut().unwrap().node.iter_mut().find(|node| node.name() == "/lm_head/Gemm").unwrap();
            let alpha = plansmith_onnx::proto::AttributeProto {
                name: Some("alpha".to_owned()),
                f: Some(0.5),
                r#type: Some(plansmith_onnx::proto::attribute_proto::AttributeType::Float as i32),
                ..Default::default()
            };
            node.attribute.push(alpha);
        },
        "rten",
    );
    let found = &verdict["candidates"][0]["first_divergence"];
    assert!(found["layer"].is_null() && found["block"] == "head", "{stdout}");
    assert_eq!(found["cause_hints"][0], "a constant factor: the candidate is 0.500000 times the source");
    assert!(stdout.contains("0.500000 times the source"), "{stdout}");
}

#[test]
fn a_bundle_has_no_reference_to_look_into() {
    let run = plansmith(&["verify", "--bundle", "nowhere", "--bisect"]).exits(2);
    assert!(run.stderr.contains("a bundle has no source"), "{}", run.stderr);
}
