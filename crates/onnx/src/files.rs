//! The files that hold a model's external data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::proto::{ModelProto, TensorProto};
use crate::{Error, ExternalData, dtype, elements_of, tensors};

/// A file of external data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
}

/// Which symbolic links are followed to data files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links<'a> {
    /// All: the caller chose the folder for its weights.
    Followed,
    /// Those that stay in the folder of the model file, or in the one that the model file itself is a link into, as all files of a hub's
    /// cache are.
    BesideTheModel(&'a Path),
}

/// The data files that `model` refers to, by location, in `folder`. Sizes are read and no data.
///
/// # Errors
/// Names the tensor whose reference cannot be followed: the file is missing, no regular file, behind a link that is not followed, or shorter
/// than the tensor's range; or the range is not as long as the shape takes.
pub fn data_files(model: &ModelProto, folder: &Path, links: Links<'_>) -> Result<BTreeMap<String, DataFile>, Error> {
    let mut files: BTreeMap<String, DataFile> = BTreeMap::new();
    for tensor in tensors(model) {
        let refuse = |problem: String| Error::Tensor { tensor: tensor.name().to_owned(), problem };
        let Some(data) = ExternalData::of(tensor)? else { continue };
        if !files.contains_key(&data.location) {
            files.insert(data.location.clone(), data_file(folder, &data.location, links).map_err(refuse)?);
        }
        check_extent(tensor, &data, &files[&data.location]).map_err(refuse)?;
    }
    Ok(files)
}

fn data_file(folder: &Path, location: &str, links: Links<'_>) -> Result<DataFile, String> {
    let path = folder.join(location);
    let metadata = plansmith_files::metadata(&path).map_err(|error| {
        if error.is_not_found() { format!("its data file {} does not exist", path.display()) } else { error.to_string() }
    })?;
    if !metadata.is_file() {
        return Err(format!("its data file {} is not a regular file", path.display()));
    }
    if let Links::BesideTheModel(model) = links {
        let real = |path: &Path| plansmith_files::canonicalize(path).map_err(|error| error.to_string());
        let (target, beside, own) =
            (real(&path)?, real(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?, real(model)?);
        if target.parent() != Some(&beside) && target.parent() != own.parent() {
            return Err(format!("its data file {} is a link out of the folder, to {}", path.display(), target.display()));
        }
    }
    Ok(DataFile { path, size: metadata.len() })
}

/// The bytes that `tensor` claims lie in the file and are as many as its shape needs.
fn check_extent(tensor: &TensorProto, data: &ExternalData, file: &DataFile) -> Result<(), String> {
    let path = file.path.display();
    let (start, size) = (data.offset, file.size);
    let length = data.length.unwrap_or_else(|| size.saturating_sub(start));
    if let Some(dtype) = dtype(tensor.data_type()) {
        let dims = &tensor.dims;
        let needed = elements_of(dims).and_then(|elements| dtype.tensor_bytes(&[elements]));
        let needed = needed.ok_or_else(|| format!("its shape {dims:?} is impossible for {dtype}"))?;
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
