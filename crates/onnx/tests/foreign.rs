//! Models that PyPI `onnx` serialised (`tools/onnx_foreign.py`), and damaged ones.

use plansmith_onnx::{Error, ExternalData, decode, encode, external_files, signature, tensors, validate};
use plansmith_tensor::{DType, TensorSignature};

const EVERY_FIELD: &[u8] = include_bytes!("data/every_field.onnx");
const EXPORTER: &[u8] = include_bytes!("data/exporter.onnx");

/// A field of ours that were missing, misnumbered or of another type would be lost on the way.
#[test]
fn every_field_of_the_standard_survives_the_round_trip() {
    assert!(encode(&decode(EVERY_FIELD).unwrap()) == EVERY_FIELD);
    assert!(encode(&decode(EXPORTER).unwrap()) == EXPORTER);
}

#[test]
fn an_exporters_graph_is_read_as_it_was_written() {
    let model = decode(EXPORTER).unwrap();
    validate(&model).unwrap();
    assert_eq!(external_files(&model).unwrap(), ["more.bin", "weights.bin"]);
    let names: Vec<_> = tensors(&model).into_iter().map(|tensor| (tensor.name(), ExternalData::of(tensor).unwrap())).collect();
    let external = |location: &str, offset, length| Some(ExternalData { location: location.to_owned(), offset, length });
    assert_eq!(names, [("weight", external("weights.bin", 4096, Some(48))), ("limit", None), ("inner", external("more.bin", 0, None))]);
    let signature = signature(&model).unwrap();
    let tensor = |name: &str, dtype, shape: Vec<Result<u64, &str>>| TensorSignature {
        name: name.to_owned(),
        dtype,
        shape: shape.into_iter().map(|dim| dim.map_err(str::to_owned)).collect(),
    };
    // `limit` is an initialiser with a default value, not something a caller has to give.
    assert_eq!(signature.inputs, [tensor("x", DType::F32, vec![Err("batch"), Ok(4)]), tensor("flag", DType::Bool, vec![])]);
    assert_eq!(signature.outputs, [tensor("out", DType::F32, vec![Err("batch"), Err("?")])]);
}

#[test]
fn other_bytes_are_refused() {
    assert!(matches!(decode(b""), Err(Error::NoGraph)));
    assert_eq!(decode(b"").unwrap_err().to_string(), "not an ONNX model: the message holds no graph");
    assert!(matches!(decode(b"GGUF\x03\0\0\0"), Err(Error::Decode(_))));
    assert!(matches!(decode(&EXPORTER[..EXPORTER.len() - 1]), Err(Error::Decode(_))));
}

/// A graph in a graph in a graph …: the decoder stops at its limit instead of at the end of the stack.
#[test]
fn deep_nesting_is_refused() {
    let wrap = |tag: u8, inner: &[u8]| {
        let mut bytes = vec![tag];
        prost::encoding::encode_varint(inner.len() as u64, &mut bytes);
        bytes.extend_from_slice(inner);
        bytes
    };
    // GraphProto.node = 1, NodeProto.attribute = 5, AttributeProto.g = 6; ModelProto.graph = 7.
    let mut graph = Vec::new();
    for _ in 0..10_000 {
        graph = wrap(0x0a, &wrap(0x2a, &wrap(0x32, &graph)));
    }
    assert!(matches!(decode(&wrap(0x3a, &graph)), Err(Error::Decode(_))));
}
