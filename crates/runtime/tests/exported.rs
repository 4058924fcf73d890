//! Graphs of our own making, over the tiny checkpoints in testdata/cases, against the logits that transformers computed from those.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and shows what it found")]

mod common;

use std::path::{Path, PathBuf};

use common::{Golden, alone, decode, prefill};
use plansmith_families::Options;
use plansmith_graph::Metadata;
use plansmith_lowering::{Float, PRIMITIVE_OPSET, Source, Target, lower};
use plansmith_runtime::{GraphSource, OpenOptions, RuntimeKind, open};
use serde_json::Value;

/// Checkpoints whose verdict is `agree`, and the largest difference that is allowed, over the logits' standard deviation.
fn cases() -> Vec<(PathBuf, f32)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cases");
    let expected = plansmith_files::read_to_string(&root.join("expected.json")).unwrap();
    let expected: serde_json::Map<String, Value> = serde_json::from_str(&expected).unwrap();
    let agreeing = expected.iter().filter(|(_, case)| case["verdict"] == "agree");
    agreeing.map(|(name, case)| (root.join(name), case["max_rel"].as_f64().unwrap() as f32)).collect()
}

/// The largest difference of the three ways of running the case's graph.
fn worst(kind: RuntimeKind, case: &Path, opset: Option<u32>) -> Result<f32, String> {
    let source = Source::open(case, &Options::default()).map_err(|error| error.to_string())?;
    let target = Target { compute: Some(Float::Fp32), opset, ..Target::default() };
    let lowered = lower(&source, &target).map_err(|error| error.to_string())?;
    let model = lowered.graph.finish(&Metadata::default()).map_err(|error| error.to_string())?;
    let options = OpenOptions::default();
    let mut session = open(kind, GraphSource::Memory { model: &model, folder: case }, &options).map_err(|error| error.to_string())?;
    let sets = Golden::read_sets(&case.join("golden.safetensors"));
    let session = &mut *session;
    let switch = source.loaded.spec.switch_length();
    let mut of_set = |golden: &Golden| match switch {
        // What was cached below the switch is no use above it; `plansmith verify` decodes on one side.
        Some(length) if golden.position_ids.iter().any(|&position| position as u64 >= length) => prefill(session, golden),
        _ => prefill(session, golden).max(decode(session, golden)).max(alone(session, golden)),
    };
    sets.iter().map(&mut of_set).reduce(f32::max).ok_or_else(|| "no golden logits".to_owned())
}

fn every_case_agrees(kind: RuntimeKind) {
    let cases = cases();
    assert!(cases.len() >= 40, "only {} cases", cases.len());
    let mut failures = Vec::new();
    for (case, limit) in &cases {
        for opset in [None, Some(PRIMITIVE_OPSET)] {
            let found = worst(kind, case, opset);
            println!("{kind} {} {opset:?}: {found:?}", case.display());
            if !found.as_ref().is_ok_and(|found| found <= limit) {
                failures.push(format!("{} at opset {opset:?}: {found:?}", case.display()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_case_agrees_on_rten() {
    every_case_agrees(RuntimeKind::Rten);
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn every_case_agrees_on_onnx_runtime() {
    every_case_agrees(RuntimeKind::Ort);
}
