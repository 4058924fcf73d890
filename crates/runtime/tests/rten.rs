//! The embedded runtime against logits that transformers computed.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and shows what it found")]

mod common;

use common::{Golden, agrees, decode, fixture, open_file, prefill};
use plansmith_runtime::{GraphSource, OpenOptions, Optimization, RuntimeKind, load, open};
use plansmith_tensor::DType;

const RTEN: RuntimeKind = RuntimeKind::Rten;

#[test]
fn fp32_graphs_agree() {
    agrees(RTEN, "f32/portable.onnx", 1e-4);
    agrees(RTEN, "f32/primitive.onnx", 1e-4);
}

/// Within fp32's tolerance, because rten computes in fp32 over the rounded weights.
#[test]
fn fp16_graphs_are_computed_in_fp32() {
    agrees(RTEN, "f16/portable.onnx", 1e-4);
    agrees(RTEN, "f16/primitive.onnx", 1e-4);
    let loaded = load(RTEN, GraphSource::File(&fixture("f16/portable.onnx")), &OpenOptions::default()).unwrap();
    assert_eq!(loaded.facts.compute, DType::F32);
    let cache = loaded.session.signature().inputs.iter().find(|input| input.name == "past_key_values.0.key").unwrap();
    assert_eq!(cache.dtype, DType::F16);
}

#[test]
fn bf16_graphs_are_widened() {
    agrees(RTEN, "bf16/compute_f32.onnx", 1e-4);
    agrees(RTEN, "bf16/compute_bf16.onnx", 1e-4);
}

#[test]
fn unoptimised_graphs_and_one_thread_agree() {
    let options = OpenOptions { threads: Some(1), optimization: Optimization::Off, ..OpenOptions::default() };
    let path = fixture("f32/portable.onnx");
    let golden = Golden::read(&path.with_file_name("golden.safetensors"));
    let mut session = open(RTEN, GraphSource::File(&path), &options).unwrap();
    assert!(decode(&mut *session, &golden) <= 1e-4);
}

#[test]
fn a_graph_of_last_logits_gives_one_position() {
    let golden = Golden::read(&fixture("f32/golden.safetensors"));
    let mut session = open_file(RTEN, &fixture("f32/last.onnx"));
    session.reset(golden.batch).unwrap();
    let logits = session.step(&golden.batch(0..golden.batch, 0, 0, golden.sequence)).unwrap();
    assert_eq!((logits.batch, logits.sequence, logits.vocab), (3, 1, 64));
    assert!(golden.max_rel(&logits, 0, golden.sequence - 1) <= 1e-4);
}

#[test]
fn the_cache_is_the_same_by_prefill_and_by_decode() {
    let golden = Golden::read(&fixture("f32/golden.safetensors"));
    let mut session = open_file(RTEN, &fixture("f32/portable.onnx"));
    prefill(&mut *session, &golden);
    let at_once = session.cache().unwrap();
    decode(&mut *session, &golden);
    let by_token = session.cache().unwrap();
    assert_eq!(at_once.len(), 2);
    for (one, other) in at_once.iter().zip(&by_token) {
        assert_eq!(one.key.shape, [3, 2, 10, 16]);
        for (one, other) in [(&one.key, &other.key), (&one.value, &other.value)] {
            let worst = one.data.iter().zip(&other.data).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst <= 1e-4, "{worst}");
        }
    }
}

#[test]
fn a_graph_in_memory_finds_its_weights_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(fixture("f32/model.safetensors"), folder.path().join("model.safetensors")).unwrap();
    let model = plansmith_onnx::load(&fixture("f32/portable.onnx")).unwrap();
    let source = GraphSource::Memory { model: &model, folder: folder.path() };
    let mut session = open(RTEN, source, &OpenOptions::default()).unwrap();
    assert!(prefill(&mut *session, &Golden::read(&fixture("f32/golden.safetensors"))) <= 1e-4);
}

#[test]
fn after_a_failed_step_the_session_is_empty_and_usable() {
    let golden = Golden::read(&fixture("f32/golden.safetensors"));
    let mut session = open_file(RTEN, &fixture("f32/portable.onnx"));
    prefill(&mut *session, &golden);
    session.reset(golden.batch).unwrap();
    let mut batch = golden.batch(0..3, 0, 0, 4);
    batch.input_ids[5] = i64::MAX;
    let error = session.step(&batch).unwrap_err().to_string();
    assert!(error.starts_with("rten failed: `input_ids` holds 9223372036854775807"), "{error}");
    batch.input_ids[5] = 64;
    session.step(&batch).unwrap_err();
    assert_eq!(session.past(), 0);
    assert!(prefill(&mut *session, &golden) <= 1e-4);
}
