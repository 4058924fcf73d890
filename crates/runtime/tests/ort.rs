//! ONNX Runtime against logits that transformers computed.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and shows what it found")]

mod common;

use common::{Golden, agrees, decode, fixture, open_file, prefill};
use plansmith_runtime::{Error, GraphSource, OpenOptions, Optimization, RuntimeKind, find_ort, load, open};
use plansmith_tensor::DType;

const ORT: RuntimeKind = RuntimeKind::Ort;

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn fp32_graphs_agree() {
    agrees(ORT, "f32/portable.onnx", 1e-4);
    agrees(ORT, "f32/primitive.onnx", 1e-4);
}

/// fp16 has 11 bits: the arithmetic itself differs from fp32's by about 2^-11 an operation.
#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn fp16_graphs_agree_as_far_as_fp16_goes() {
    agrees(ORT, "f16/portable.onnx", 2e-2);
    agrees(ORT, "f16/primitive.onnx", 2e-2);
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn bf16_weights_with_fp32_arithmetic_agree() {
    agrees(ORT, "bf16/compute_f32.onnx", 1e-4);
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn facts_name_the_library_its_version_and_the_dtype_of_the_arithmetic() {
    let found = find_ort(None).unwrap();
    let loaded = load(ORT, GraphSource::File(&fixture("f16/portable.onnx")), &OpenOptions::default()).unwrap();
    assert_eq!(loaded.facts.compute, DType::F16);
    assert_eq!(loaded.facts.version, found.version);
    assert_eq!(loaded.facts.library, Some(found.path));
    assert!(loaded.breakdown.total() >= loaded.breakdown.session);
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn unoptimised_graphs_and_one_thread_agree() {
    let options = OpenOptions { threads: Some(1), optimization: Optimization::Off, ..OpenOptions::default() };
    let path = fixture("f32/portable.onnx");
    let golden = Golden::read(&path.with_file_name("golden.safetensors"));
    let mut session = open(ORT, GraphSource::File(&path), &options).unwrap();
    assert!(decode(&mut *session, &golden) <= 1e-4);
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn a_graph_of_last_logits_gives_one_position() {
    let golden = Golden::read(&fixture("f32/golden.safetensors"));
    let mut session = open_file(ORT, &fixture("f32/last.onnx"));
    session.reset(golden.batch).unwrap();
    let logits = session.step(&golden.batch(0..golden.batch, 0, 0, golden.sequence)).unwrap();
    assert_eq!((logits.batch, logits.sequence, logits.vocab), (3, 1, 64));
    assert!(golden.max_rel(&logits, 0, golden.sequence - 1) <= 1e-4);
}

/// A hub's cache: every file is a link into a folder of blobs, under another name.
#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn a_graph_in_memory_finds_its_weights_beside_it_and_through_a_link() {
    let golden = Golden::read(&fixture("f32/golden.safetensors"));
    let model = plansmith_onnx::load(&fixture("f32/portable.onnx")).unwrap();
    let (blobs, links) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    plansmith_files::copy_file(&fixture("f32/model.safetensors"), &blobs.path().join("6b86b273ff34")).unwrap();
    std::os::unix::fs::symlink(blobs.path().join("6b86b273ff34"), links.path().join("model.safetensors")).unwrap();
    for folder in [fixture("f32").as_path(), links.path()] {
        let mut session = open(ORT, GraphSource::Memory { model: &model, folder }, &OpenOptions::default()).unwrap();
        assert!(prefill(&mut *session, &golden) <= 1e-4, "{}", folder.display());
    }
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn after_a_failed_step_the_session_is_empty_and_usable() {
    let golden = Golden::read(&fixture("f32/golden.safetensors"));
    let mut session = open_file(ORT, &fixture("f32/portable.onnx"));
    prefill(&mut *session, &golden);
    session.reset(golden.batch).unwrap();
    let mut batch = golden.batch(0..3, 0, 0, 4);
    batch.input_ids[5] = 64;
    let error = session.step(&batch).unwrap_err().to_string();
    assert!(error.starts_with("ort failed: "), "{error}");
    assert_eq!(session.past(), 0);
    assert!(prefill(&mut *session, &golden) <= 1e-4);
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn a_second_library_is_refused_with_both_paths() {
    let _first = open_file(ORT, &fixture("f32/portable.onnx"));
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("libonnxruntime.so");
    plansmith_files::copy_file(&find_ort(None).unwrap().path, &other).unwrap();
    let options = OpenOptions { ort_library: Some(other.clone()), ..OpenOptions::default() };
    match open(ORT, GraphSource::File(&fixture("f32/portable.onnx")), &options) {
        Err(Error::LibraryLoaded { loaded, wanted }) => assert!(wanted == other && loaded != other),
        other => panic!("{:?}", other.map(|session| session.past())),
    }
}
