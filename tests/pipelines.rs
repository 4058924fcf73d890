//! The pipelines that we ship: each is read and planned, on a tiny checkpoint in place of its own.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use common::{case, names, plansmith, text};

fn planned(name: &str) -> String {
    let pipelines = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines");
    let (folder, source) = (tempfile::tempdir().unwrap(), case("llama3_rope"));
    let (checkpoint, output) = (format!("source.checkpoint={}", text(&source)), format!("output={}", text(&folder.path().join("out"))));
    let pipeline = pipelines.join(name);
    let mut arguments = vec!["build", text(&pipeline), "--plan-only", "--set", &checkpoint, "--set", &output];
    let graph = format!("verify.graphs=[{}]", text(&folder.path().join("model.onnx")));
    if name == "verify.yaml" {
        plansmith(&["export", text(&source), "-o", text(folder.path())]).exits(0);
        arguments.extend(["--set", &graph]);
    }
    plansmith(&arguments).exits(0).stdout
}

#[test]
#[ignore = "needs ONNX Runtime and the TensorRT-RTX worker: run by cargo xtask test"]
fn every_pipeline_is_read_and_planned() {
    let pipelines = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines");
    let files = names(&pipelines);
    assert!(files.len() >= 7, "{files:?}");
    for name in &files {
        let stages = planned(name);
        assert!(stages.ends_with("run    verify\nrun    bundle\n"), "{name}: {stages}");
    }
    assert_eq!(planned("server.yaml").lines().filter(|line| line.contains("engine:")).count(), 16);
}
