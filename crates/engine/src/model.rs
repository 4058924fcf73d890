//! What is known of an ONNX file before TensorRT sees it.
//!
//! TensorRT's parser takes an empty or random file for a network without outputs, and does not always say that external data is
//! missing or short. So this looks first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plansmith_onnx::proto::TensorProto;
use plansmith_onnx::{ExternalData, Links, ModelProto};
use plansmith_tensor::Signature;

use crate::refusal::{made_by, refusals, unread_inputs};
use crate::{Error, FileRecord, GraphTypes, ModelLengths, OnnxRecord, Place};

/// An ONNX file that is fit to be given to a parser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFacts {
    /// The file, absolute and without links.
    pub path: PathBuf,
    /// Inputs and outputs.
    pub signature: Signature,
    /// Where the initialisers are that lie in data files or are small, by name.
    pub places: BTreeMap<String, Place>,
    /// Names of the files with its external data, beside it.
    pub data: Vec<String>,
    /// How long a sequence it is made for.
    pub lengths: ModelLengths,
    /// Bytes of its initialisers.
    pub weight_bytes: u64,
    /// Bytes of the masks of its attention for one row of the batch, one new token and one token that it may see.
    pub mask_bytes: u64,
    /// Its element types.
    pub types: GraphTypes,
}

/// Reads the graph and checks that it is valid and its external data there and long enough. No payload is read.
///
/// # Errors
/// [`Error::Model`]: the file's name is not UTF-8, it is empty, has no output, or is refused by [`plansmith_onnx::validate`] or [`plansmith_onnx::data_files`].
/// [`Error::Refused`]: nodes that TensorRT does not take. [`Error::Unread`]: inputs that it would drop.
/// [`Error::Onnx`]: it is not ONNX. [`Error::File`].
pub fn inspect_model(path: &Path) -> Result<ModelFacts, Error> {
    // A pipe or a device has no size either; and the name that the system gives to a pipe leads nowhere.
    plansmith_files::open_regular(path)?;
    let path = plansmith_files::canonicalize(path)?;
    let refuse = |reason: String| Error::Model { path: path.clone(), reason };
    let foreign = |source: plansmith_onnx::Error| match source {
        plansmith_onnx::Error::File(error) => Error::File(error),
        plansmith_onnx::Error::InFile { problem, .. } => Error::Onnx { path: path.clone(), source: problem },
        other => Error::Onnx { path: path.clone(), source: Box::new(other) },
    };
    file_name(&path)?;
    if plansmith_files::metadata(&path)?.len() == 0 {
        return Err(refuse("the file is empty".to_owned()));
    }
    let model = plansmith_onnx::load(&path).map_err(foreign)?;
    let signature = plansmith_onnx::signature(&model).map_err(foreign)?;
    if signature.outputs.is_empty() {
        return Err(refuse("the graph has no outputs".to_owned()));
    }
    let nodes = refusals(&model);
    if !nodes.is_empty() {
        return Err(Error::Refused { path, producer: made_by(&model), nodes });
    }
    let inputs = unread_inputs(&model);
    if !inputs.is_empty() {
        return Err(Error::Unread { path, inputs });
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let files = plansmith_onnx::validate(&model).and_then(|()| plansmith_onnx::data_files(&model, folder, Links::BesideTheModel(&path)));
    let files = files.map_err(|error| match error {
        plansmith_onnx::Error::File(error) => Error::File(error),
        other => refuse(other.to_string()),
    })?;
    let (lengths, types, mask_bytes) = (ModelLengths::of(&model), GraphTypes::of(&model), crate::masks::mask_bytes(&model));
    let weight_bytes = model.graph.iter().flat_map(|graph| &graph.initializer).filter_map(bytes_of).sum();
    Ok(ModelFacts { signature, places: places(&model), data: files.into_keys().collect(), path, lengths, weight_bytes, mask_bytes, types })
}

/// The bare name of a graph, as the worker is told it.
pub(crate) fn file_name(path: &Path) -> Result<&str, Error> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.ok_or_else(|| Error::Model { path: path.to_owned(), reason: "its name is not UTF-8".to_owned() })
}

/// Bytes of a tensor's data; `None` where they are neither in a file nor given raw, and the type is one of those that we do not know.
fn bytes_of(tensor: &TensorProto) -> Option<u64> {
    if let Ok(Some(ExternalData { length: Some(length), .. })) = ExternalData::of(tensor) {
        return Some(length);
    }
    if let Some(raw) = &tensor.raw_data {
        return Some(raw.len() as u64);
    }
    let shape = tensor.dims.iter().map(|&dim| u64::try_from(dim)).collect::<Result<Vec<_>, _>>().ok()?;
    plansmith_onnx::dtype(tensor.data_type())?.tensor_bytes(&shape)
}

/// Initialisers whose bytes are where somebody else can read them.
fn places(model: &ModelProto) -> BTreeMap<String, Place> {
    let place = |tensor: &TensorProto| match ExternalData::of(tensor) {
        Ok(Some(ExternalData { location, offset, length: Some(bytes) })) => Some(Place::File { file: location, offset, bytes }),
        Ok(Some(ExternalData { location, offset, length: None })) => {
            let shape: Option<Vec<u64>> = tensor.dims.iter().map(|&dim| u64::try_from(dim).ok()).collect();
            let bytes = plansmith_onnx::dtype(tensor.data_type())?.tensor_bytes(&shape?)?;
            Some(Place::File { file: location, offset, bytes })
        }
        Ok(None) => Place::inline(tensor.raw_data()),
        Err(_) => None,
    };
    let initialisers = model.graph.iter().flat_map(|graph| &graph.initializer);
    initialisers.filter_map(|tensor| Some((tensor.name().to_owned(), place(tensor)?))).collect()
}

impl ModelFacts {
    /// Names of the initialisers that lie in data files.
    pub(crate) fn external(&self) -> Vec<String> {
        let external = self.places.iter().filter(|(_, place)| matches!(place, Place::File { .. }));
        external.map(|(name, _)| name.clone()).collect()
    }

    /// Hashes the graph and its data.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn record(&self) -> Result<OnnxRecord, Error> {
        let data = self.data.iter().map(|name| FileRecord::of(&self.path.with_file_name(name)));
        Ok(OnnxRecord { graph: FileRecord::of(&self.path)?, data: data.collect::<Result<_, _>>()? })
    }
}
