//! Graphs that TensorRT must not be given.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use common::{decoder_in, testdata};
use plansmith_engine::{Error, inspect_model};
use plansmith_tensor::DType;

#[test]
fn a_whole_model_is_described() {
    let model = inspect_model(&testdata("decoder.onnx")).unwrap();
    assert_eq!(model.data, ["decoder.data"]);
    let names: Vec<_> = model.signature.inputs.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(names, ["input_ids", "attention_mask", "position_ids", "past_key_values.0.key", "past_key_values.0.value"]);
    assert_eq!(model.signature.inputs[3].dtype, DType::F16);
    let record = model.record().unwrap();
    // `sha256sum testdata/engine/decoder.*`
    assert_eq!(record.graph.sha256.to_string(), "063301debb05c82590aa75db30cc140a0c0345c79c8cd4f078792e7de4ba09c3");
    assert_eq!(record.data[0].sha256.to_string(), "ce0959087b76a5a1789ed5ea25e1f7ee7a656d7a62fd94ce69cf6d1c65fbf135");
}

#[test]
fn what_the_parser_would_take_in_silence_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = decoder_in(folder.path(), "model");
    let data = model.with_file_name("decoder.data");
    let refusal = || inspect_model(&model).unwrap_err();

    let whole = fs::read(&data).unwrap();
    fs::write(&data, &whole[..whole.len() - 1]).unwrap();
    let text = refusal().to_string();
    assert!(text.contains("tensor `value.weight`: it needs bytes ") && text.ends_with("decoder.data, which has only 6143 bytes"), "{text}");
    fs::remove_file(&data).unwrap();
    let text = refusal().to_string();
    assert!(text.contains("tensor `embed.weight`: its data file ") && text.ends_with("decoder.data does not exist"), "{text}");

    fs::write(&model, "").unwrap();
    assert!(refusal().to_string().ends_with("the file is empty"));
    fs::write(&model, [0x55; 300]).unwrap();
    assert!(matches!(refusal(), Error::Onnx { .. }));
    fs::remove_file(&model).unwrap();
    assert!(matches!(refusal(), Error::File(_)));
    // Neither has a size, as an empty file has none.
    rustix::fs::mknodat(rustix::fs::CWD, &model, rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o600), 0).unwrap();
    for path in [&model, Path::new("/dev/zero")] {
        let Error::File(error) = inspect_model(path).unwrap_err() else { panic!("{}", path.display()) };
        assert_eq!(error.source.to_string(), "it is no regular file");
    }
}

#[test]
fn a_name_that_the_worker_cannot_be_told_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = decoder_in(folder.path(), "model");
    let alien = model.with_file_name(OsStr::from_bytes(b"bad\xff.onnx"));
    fs::rename(&model, &alien).unwrap();
    let text = inspect_model(&alien).unwrap_err().to_string();
    assert!(text.ends_with("its name is not UTF-8"), "{text}");
}

#[test]
fn a_tensor_whose_shape_and_bytes_differ_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = decoder_in(folder.path(), "model");
    let mut model = plansmith_onnx::load(&path).unwrap();
    model.graph.as_mut().unwrap().initializer[0].dims = vec![33, 32];
    fs::write(&path, plansmith_onnx::encode(&model)).unwrap();
    let text = inspect_model(&path).unwrap_err().to_string();
    assert!(text.contains("tensor `embed.weight`: its shape [33, 32] of F16 needs 2112 bytes, but 2048 are given in "), "{text}");
}

#[test]
fn what_tensorrt_drops_in_silence_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = decoder_in(folder.path(), "model");
    let mut model = plansmith_onnx::load(&path).unwrap();
    let nodes = &mut model.graph.as_mut().unwrap().node;
    let attention = nodes.iter_mut().find(|node| node.op_type() == "Attention").unwrap();
    attention.input.extend(["", "", "total"].map(str::to_owned));
    fs::write(&path, plansmith_onnx::encode(&model)).unwrap();
    let text = inspect_model(&path).unwrap_err().to_string();
    assert!(text.contains("`/layers.0/mixed` (Attention): has nonpad_kv_seqlen"), "{text}");
}
