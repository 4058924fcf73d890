//! `config.pbtxt` of Triton Inference Server, for a graph on its ONNX Runtime backend.

use std::fmt::Write as _;
use std::path::Path;

use plansmith_onnx::ModelProto;
use plansmith_onnx::proto::ValueInfoProto;
use plansmith_tensor::DType;

use super::agree::tensor;
use crate::Error;

/// The configuration of the model `name`: every input and output with its type, and −1 for what a request decides.
///
/// `max_batch_size` is 0: the rows of a batch share a mask and a cache, so that Triton must not put requests together by itself.
///
/// # Errors
/// The graph at `path` holds a type that the backend cannot be given.
pub fn triton_config(name: &str, path: &Path, model: &ModelProto) -> Result<String, Error> {
    let mut text = format!("name: {name:?}\nbackend: \"onnxruntime\"\ndefault_model_filename: \"model.onnx\"\nmax_batch_size: 0\n");
    let Some(graph) = &model.graph else { return Ok(text) };
    for (kind, values) in [("input", &graph.input), ("output", &graph.output)] {
        let entries = values.iter().map(|value| entry(path, value)).collect::<Result<Vec<_>, _>>()?;
        let _ = writeln!(text, "{kind} [\n{}\n]", entries.join(",\n"));
    }
    Ok(text)
}

fn entry(path: &Path, value: &ValueInfoProto) -> Result<String, Error> {
    let bad = |problem: String| Error::Bundle { path: path.to_owned(), problem };
    let (dtype, dims) = tensor(value).ok_or_else(|| bad(format!("says no type and shape of `{}`", value.name())))?;
    let name = match dtype {
        DType::I64 => "TYPE_INT64",
        DType::F32 => "TYPE_FP32",
        DType::F16 => "TYPE_FP16",
        other => return Err(bad(format!("has `{}` of {other}, which Triton's ONNX Runtime backend takes from no request", value.name()))),
    };
    let dims: Vec<String> = dims.iter().map(|dim| dim.map_or_else(|| "-1".to_owned(), |dim| dim.to_string())).collect();
    Ok(format!("  {{ name: {:?} data_type: {name} dims: [ {} ] }}", value.name(), dims.join(", ")))
}
