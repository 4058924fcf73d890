//! What is known of an ONNX file before TensorRT sees it.
//!
//! TensorRT's parser takes an empty or random file for a network without outputs, and does not always say that external data is
//! missing or short. So this looks first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plansmith_onnx::ExternalData;
use plansmith_onnx::proto::NodeProto;
use plansmith_tensor::Signature;

use crate::{Error, FileRecord, OnnxRecord};

/// An ONNX file that is fit to be given to a parser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFacts {
    /// The file, absolute and without links.
    pub path: PathBuf,
    /// Inputs and outputs.
    pub signature: Signature,
    /// Names of the files with its external data, beside it.
    pub data: Vec<String>,
}

/// Reads the graph and checks that its external data is there and long enough. No payload is read.
///
/// # Errors
/// [`Error::Model`]: the file is empty, has no output, uses what TensorRT drops in silence, or a tensor lies beyond the end of its data file or in one that is missing.
/// [`Error::Onnx`]: it is not ONNX. [`Error::File`].
pub fn inspect_model(path: &Path) -> Result<ModelFacts, Error> {
    let path = plansmith_files::canonicalize(path)?;
    let refuse = |reason: String| Error::Model { path: path.clone(), reason };
    let foreign = |source: plansmith_onnx::Error| Error::Onnx { path: path.clone(), source: Box::new(source) };
    if plansmith_files::metadata(&path)?.len() == 0 {
        return Err(refuse("the file is empty".to_owned()));
    }
    let model = plansmith_onnx::load(&path).map_err(foreign)?;
    let signature = plansmith_onnx::signature(&model).map_err(foreign)?;
    if signature.outputs.is_empty() {
        return Err(refuse("the graph has no outputs".to_owned()));
    }
    if let Some(node) = model.graph.iter().flat_map(|graph| &graph.node).find(|node| drops_lengths(node)) {
        let name = node.name();
        return Err(refuse(format!("node `{name}` (Attention) has nonpad_kv_seqlen, which TensorRT drops in silence; use a mask")));
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut sizes = BTreeMap::new();
    for tensor in plansmith_onnx::tensors(&model) {
        let Some(data) = ExternalData::of(tensor).map_err(foreign)? else { continue };
        let name = tensor.name();
        let size = match sizes.get(&data.location) {
            Some(size) => *size,
            None => {
                let file = folder.join(&data.location);
                if !plansmith_files::is_file(&file) {
                    return Err(refuse(format!("the data file `{}` of tensor `{name}` is missing", file.display())));
                }
                let size = plansmith_files::metadata(&file)?.len();
                sizes.insert(data.location.clone(), size);
                size
            }
        };
        let end = data.offset.saturating_add(data.length.unwrap_or(0));
        if end > size {
            return Err(refuse(format!(
                "tensor `{name}` ends at byte {end} of the data file `{}`, which has {size}: the file is cut short",
                data.location
            )));
        }
        let dims = tensor.dims.iter().map(|&dim| u64::try_from(dim)).collect::<Result<Vec<_>, _>>();
        let dims = dims.map_err(|_| refuse(format!("tensor `{name}` has the shape {:?}", tensor.dims)))?;
        let needed = plansmith_onnx::dtype(tensor.data_type()).and_then(|dtype| dtype.tensor_bytes(&dims));
        if let (Some(needed), Some(length)) = (needed, data.length)
            && needed != length
        {
            return Err(refuse(format!("tensor `{name}` of shape {dims:?} needs {needed} bytes; its external data has {length}")));
        }
    }
    Ok(ModelFacts { signature, data: sizes.into_keys().collect(), path })
}

/// Input 6 of Attention since opset 24.
fn drops_lengths(node: &NodeProto) -> bool {
    node.op_type() == "Attention" && node.domain().is_empty() && node.input.get(6).is_some_and(|input| !input.is_empty())
}

impl ModelFacts {
    /// Hashes the graph and its data.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn record(&self) -> Result<OnnxRecord, Error> {
        let data = self.data.iter().map(|name| FileRecord::of(&self.path.with_file_name(name)));
        Ok(OnnxRecord { graph: FileRecord::of(&self.path)?, data: data.collect::<Result<_, _>>()? })
    }
}
