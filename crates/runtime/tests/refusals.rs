//! Graphs that must be refused before any runtime sees them, and what the refusal says.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and shows what it found")]

mod common;

use std::path::Path;

use common::{Golden, fixture, prefill};
use plansmith_onnx::ModelProto;
use plansmith_onnx::proto::TensorProto;
use plansmith_runtime::{GraphSource, OpenOptions, RuntimeKind, open};

fn model() -> ModelProto {
    plansmith_onnx::load(&fixture("f32/portable.onnx")).unwrap()
}

fn external(model: &mut ModelProto, name: &str, key: &str, value: &str) {
    let initialisers = &mut model.graph.as_mut().unwrap().initializer;
    let tensor: &mut TensorProto = initialisers.iter_mut().find(|tensor| tensor.name() == name).unwrap();
    tensor.external_data.iter_mut().find(|entry| entry.key() == key).unwrap().value = Some(value.to_owned());
}

/// The message of the refusal, on both runtimes the same: no library of ONNX Runtime is looked for.
fn refused(source: GraphSource<'_>) -> String {
    let message = |kind| match open(kind, source, &OpenOptions::default()) {
        Ok(_) => panic!("{kind} opened it"),
        Err(error) => error.to_string(),
    };
    let found = message(RuntimeKind::Rten);
    assert_eq!(message(RuntimeKind::Ort), found);
    found
}

fn in_memory(model: &ModelProto, folder: &Path) -> String {
    refused(GraphSource::Memory { model, folder })
}

#[test]
fn a_truncated_data_file() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = plansmith_files::read(&fixture("f32/model.safetensors")).unwrap();
    let data = folder.path().join("model.safetensors");
    plansmith_files::write_atomic(&data, &bytes[..bytes.len() - 100]).unwrap();
    let graph = folder.path().join("model.onnx");
    plansmith_files::copy_file(&fixture("f32/portable.onnx"), &graph).unwrap();
    let message = refused(GraphSource::File(&graph));
    let (graph, data, has, needs) = (graph.display(), data.display(), bytes.len() - 100, bytes.len());
    assert!(message.starts_with("cannot load tensor `") && message.contains(&format!("` of {graph}: it needs bytes ")), "{message}");
    assert!(message.ends_with(&format!("..{needs} of {data}, which has only {has} bytes")), "{message}");
}

#[test]
fn a_missing_data_file() {
    let folder = tempfile::tempdir().unwrap();
    let message = in_memory(&model(), folder.path());
    let data = folder.path().join("model.safetensors");
    assert!(message.starts_with("cannot load tensor `model.embed_tokens.weight` of the graph in memory: "), "{message}");
    assert!(message.ends_with(&format!("its data file {} does not exist", data.display())), "{message}");
}

#[test]
fn a_location_outside_the_folder() {
    for location in ["../f32/model.safetensors", "/etc/passwd", ""] {
        let mut model = model();
        external(&mut model, "lm_head.weight", "location", location);
        let message = in_memory(&model, &fixture("f32"));
        assert!(message.contains("`lm_head.weight`") && message.contains(&format!("location `{location}`")), "{message}");
    }
}

#[test]
fn a_length_that_is_not_the_shape_s() {
    let mut model = model();
    external(&mut model, "lm_head.weight", "length", "8188");
    let message = in_memory(&model, &fixture("f32"));
    assert!(message.contains("its shape [64, 32] of F32 needs 8192 bytes, but 8188 are given in "), "{message}");
}

#[test]
fn a_file_that_is_no_graph() {
    let path = fixture("f32/model.safetensors");
    let message = refused(GraphSource::File(&path));
    assert!(message.starts_with(&format!("{} is not an ONNX graph: ", path.display())), "{message}");
    let message = refused(GraphSource::File(Path::new("/nowhere/model.onnx")));
    assert!(message.contains("/nowhere/model.onnx"), "{message}");
}

#[test]
fn an_input_that_nobody_would_feed() {
    let mut model = model();
    let inputs = &mut model.graph.as_mut().unwrap().input;
    let mut other = inputs[0].clone();
    other.name = Some("encoder_hidden_states".to_owned());
    inputs.push(other);
    let message = in_memory(&model, &fixture("f32"));
    assert_eq!(
        message,
        "the graph in memory is not a decoder graph that can be driven: input `encoder_hidden_states` is none that we know"
    );
}

#[test]
fn a_plan_s_runtime_for_a_graph() {
    let error = open(RuntimeKind::TensorRt, GraphSource::File(&fixture("f32/portable.onnx")), &OpenOptions::default()).err().unwrap();
    assert!(error.to_string().ends_with("it runs plans; build one with `plansmith engine`"), "{error}");
}

/// rten wants tensors aligned to their elements; safetensors files with a header of odd length are legal.
#[test]
fn misaligned_tensors_are_no_reason_to_refuse() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = vec![0u8];
    bytes.extend(plansmith_files::read(&fixture("f32/model.safetensors")).unwrap());
    plansmith_files::write_atomic(&folder.path().join("model.safetensors"), &bytes).unwrap();
    let mut model = model();
    for tensor in &mut model.graph.as_mut().unwrap().initializer {
        for entry in tensor.external_data.iter_mut().filter(|entry| entry.key() == "offset") {
            entry.value = Some((entry.value().parse::<u64>().unwrap() + 1).to_string());
        }
    }
    let source = GraphSource::Memory { model: &model, folder: folder.path() };
    let mut session = open(RuntimeKind::Rten, source, &OpenOptions::default()).unwrap();
    assert!(prefill(&mut *session, &Golden::read(&fixture("f32/golden.safetensors"))) <= 1e-4);
}
