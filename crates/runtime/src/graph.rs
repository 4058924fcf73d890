//! A graph as every runtime gets it: decoded, its interface understood, its external data there.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plansmith_onnx::proto::TensorProto;
use plansmith_onnx::{ExternalData, ModelProto};
use plansmith_tensor::DType;

use crate::interface::{Interface, Reading, listing};
use crate::open::OpenOptions;
use crate::{Error, genai};

/// Where a graph comes from.
#[derive(Debug, Clone, Copy)]
pub enum GraphSource<'a> {
    /// A file; external data lies beside it.
    File(&'a Path),
    /// A graph that is nowhere on disk.
    Memory {
        /// The graph.
        model: &'a ModelProto,
        /// The folder that holds its external data. Links in it are followed wherever they lead.
        folder: &'a Path,
    },
}

/// A graph that has been checked.
pub(crate) struct Graph<'a> {
    /// What errors call it.
    pub(crate) name: String,
    pub(crate) model: Cow<'a, ModelProto>,
    /// The file, where there is one.
    pub(crate) path: Option<&'a Path>,
    /// Data files by location.
    pub(crate) files: BTreeMap<String, DataFile>,
    pub(crate) interface: Interface,
}

/// A file of external data.
pub(crate) struct DataFile {
    pub(crate) path: PathBuf,
    /// Bytes.
    pub(crate) size: u64,
}

impl<'a> Graph<'a> {
    /// Reads the graph's own bytes and the sizes of its data files; no tensor data is read.
    pub(crate) fn read(source: GraphSource<'a>, options: &OpenOptions) -> Result<Self, Error> {
        let (name, model, path, folder) = match source {
            GraphSource::File(path) => {
                let name = path.display().to_string();
                let model = plansmith_onnx::load(path).map_err(|error| match error {
                    plansmith_onnx::Error::File(error) => Error::File(error),
                    other => Error::Decode { graph: name.clone(), reason: other.to_string() },
                })?;
                let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
                (name, Cow::Owned(model), Some(path), folder)
            }
            GraphSource::Memory { model, folder } => ("the graph in memory".to_owned(), Cow::Borrowed(model), None, folder.to_path_buf()),
        };
        let unserved = |reason: String, listing: String| Error::Interface { graph: name.clone(), reason, listing };
        let signature = plansmith_onnx::signature(&model).map_err(|error| unserved(error.to_string(), String::new()))?;
        let reading = Reading {
            map: options.names.clone(),
            model: Some(&model),
            shape: options.shape.clone().or_else(|| genai::shape_beside(path?)),
            unpadded: options.unpadded,
        };
        let listed = listing(&signature);
        let interface = Interface::read(signature, &reading).map_err(|reason| unserved(reason, listed))?;
        let files = data_files(&model, &folder, &name)?;
        Ok(Self { name, model, path, files, interface })
    }
}

fn data_files(model: &ModelProto, folder: &Path, graph: &str) -> Result<BTreeMap<String, DataFile>, Error> {
    let mut files: BTreeMap<String, DataFile> = BTreeMap::new();
    for tensor in plansmith_onnx::tensors(model) {
        let refuse = |reason: String| Error::ExternalData { graph: graph.to_owned(), tensor: tensor.name().to_owned(), reason };
        let data = match ExternalData::of(tensor) {
            Ok(None) => continue,
            Ok(Some(data)) => data,
            Err(plansmith_onnx::Error::External { problem, .. }) => return Err(refuse(problem)),
            Err(other) => return Err(refuse(other.to_string())),
        };
        if !files.contains_key(&data.location) {
            files.insert(data.location.clone(), data_file(folder, &data.location).map_err(refuse)?);
        }
        let file = &files[&data.location];
        check_extent(tensor, &data, file).map_err(refuse)?;
    }
    Ok(files)
}

fn data_file(folder: &Path, location: &str) -> Result<DataFile, String> {
    let path = folder.join(location);
    let metadata = plansmith_files::metadata(&path).map_err(|error| {
        if error.is_not_found() { format!("its data file {} does not exist", path.display()) } else { error.to_string() }
    })?;
    if !metadata.is_file() {
        return Err(format!("its data file {} is not a regular file", path.display()));
    }
    Ok(DataFile { path, size: metadata.len() })
}

/// The bytes that `tensor` claims lie in the file and are as many as its shape needs.
fn check_extent(tensor: &TensorProto, data: &ExternalData, file: &DataFile) -> Result<(), String> {
    let path = file.path.display();
    let (start, size) = (data.offset, file.size);
    let length = data.length.unwrap_or_else(|| size.saturating_sub(start));
    if let Some(dtype) = plansmith_onnx::dtype(tensor.data_type()) {
        let dims = &tensor.dims;
        let needed = bytes(dims, dtype).ok_or_else(|| format!("its shape {dims:?} is impossible for {dtype}"))?;
        if needed != length {
            return Err(format!("its shape {dims:?} of {dtype} needs {needed} bytes, but {length} are given in {path}"));
        }
    }
    // `ExternalData` has checked that the sum does not overflow; a missing length cannot reach beyond the end unless the start does.
    let end = start.saturating_add(length);
    if end > size {
        return Err(format!("it needs bytes {start}..{end} of {path}, which has only {size} bytes"));
    }
    Ok(())
}

fn bytes(dims: &[i64], dtype: DType) -> Option<u64> {
    let dims = dims.iter().map(|&dim| u64::try_from(dim).ok()).collect::<Option<Vec<_>>>()?;
    dtype.tensor_bytes(&dims)
}
