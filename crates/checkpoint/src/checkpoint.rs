//! A checkpoint folder: found, opened and checked without reading its payload.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use plansmith_files::{Digest, Hasher};
use serde::de::DeserializeOwned;

use crate::error::{Error, FolderError};
use crate::header::{Header, TensorInfo};
use crate::index::{Index, IndexError};
use crate::json::{JsonError, parse_json, read_limited};
use crate::mmap::Mapped;
use crate::weight_file::{FileSummary, WeightFile, inspect_file};

/// The name of the weights of an unsharded checkpoint.
pub const SINGLE_NAME: &str = "model.safetensors";
/// The name of the index of a sharded checkpoint.
pub const INDEX_NAME: &str = "model.safetensors.index.json";

const MAX_INDEX_BYTES: u64 = 100_000_000;
const MAX_CONFIG_BYTES: u64 = 16_000_000;

/// The weights of a folder. Opening costs as much as the headers; nothing here reads payload unless it says so.
#[derive(Debug)]
pub struct Checkpoint {
    dir: PathBuf,
    files: Vec<WeightFile>,
    tensors: IndexMap<String, TensorInfo>,
}

impl Checkpoint {
    /// Opens the checkpoint in the folder `dir`: `model.safetensors`, or the shards that `model.safetensors.index.json` names.
    ///
    /// Files that the index does not name are not read. Symbolic links are followed.
    ///
    /// # Errors
    /// There is no such folder or no weights that we read; both forms are there and disagree; a header is invalid
    /// ([`crate::HeaderError`]); the index disagrees with its shards ([`IndexError`]).
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let refuse = |source| Error::Folder { dir: dir.to_owned(), source };
        if !plansmith_files::is_dir(dir) {
            plansmith_files::metadata(dir)?;
            return Err(refuse(FolderError::NotAFolder));
        }
        let single = exists(&dir.join(SINGLE_NAME));
        let index_path = dir.join(INDEX_NAME);
        if exists(&index_path) {
            let index_error = |source| Error::Index { path: index_path.clone(), source };
            let text = read_limited(&index_path, MAX_INDEX_BYTES)?;
            let index = Index::parse(&text).map_err(index_error)?;
            let names = index.files();
            if single && !names.iter().any(|(name, _)| *name == SINGLE_NAME) {
                return Err(refuse(FolderError::SingleAndIndex { named: name_some(&names) }));
            }
            let mut shards = Vec::with_capacity(names.len());
            for (name, tensor) in names {
                let path = dir.join(name);
                if !exists(&path) {
                    return Err(index_error(IndexError::MissingFile { tensor: tensor.to_owned(), file: name.to_owned() }));
                }
                shards.push(inspect_file(&path)?);
            }
            index.check(&shards).map_err(index_error)?;
            return Ok(Self::of_files(dir, shards));
        }
        if single {
            return Ok(Self::of_files(dir, vec![inspect_file(&dir.join(SINGLE_NAME))?]));
        }
        Err(refuse(what_else(dir)?))
    }

    /// Treats one safetensors file of any name as a checkpoint of its own (a golden file, converted weights).
    ///
    /// # Errors
    /// As [`inspect_file`].
    pub fn open_file(path: &Path) -> Result<Self, Error> {
        let dir = plansmith_files::folder_of(path);
        Ok(Self::of_files(dir, vec![inspect_file(path)?]))
    }

    fn of_files(dir: &Path, summaries: Vec<FileSummary>) -> Self {
        let mut files = Vec::with_capacity(summaries.len());
        let mut tensors = IndexMap::with_capacity(summaries.iter().map(|summary| summary.header.tensors.len()).sum());
        for (file_index, FileSummary { file, header: Header { tensors: of_file, .. } }) in summaries.into_iter().enumerate() {
            files.push(file);
            tensors.extend(of_file.into_iter().map(|(name, info)| (name, TensorInfo { file: file_index, ..info })));
        }
        Self { dir: dir.to_owned(), files, tensors }
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The weight files, sorted by name.
    pub fn files(&self) -> &[WeightFile] {
        &self.files
    }

    /// All tensors by name: file by file, in payload order.
    pub fn tensors(&self) -> &IndexMap<String, TensorInfo> {
        &self.tensors
    }

    /// The tensor `name`.
    pub fn get(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// The tensor `name`, which must be there.
    ///
    /// # Errors
    /// [`Error::NoTensor`].
    pub fn tensor(&self, name: &str) -> Result<&TensorInfo, Error> {
        self.get(name).ok_or_else(|| Error::NoTensor { dir: self.dir.clone(), name: name.to_owned() })
    }

    /// The file that holds `tensor`, which must be of this checkpoint.
    pub fn file_of(&self, tensor: &TensorInfo) -> &WeightFile {
        &self.files[tensor.file]
    }

    /// Where `config.json` is.
    pub fn config_path(&self) -> PathBuf {
        self.dir.join("config.json")
    }

    /// Whether the folder holds a file `name`.
    pub fn has(&self, name: &str) -> bool {
        plansmith_files::is_file(&self.dir.join(name))
    }

    /// Reads the JSON file `name` (`config.json`, `generation_config.json`) of the folder, at most 16 MB.
    ///
    /// # Errors
    /// It is absent, longer, no JSON, has a key twice in one object, or does not fit `T`.
    pub fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        let path = self.dir.join(name);
        let text = read_limited(&path, MAX_CONFIG_BYTES)?;
        parse_json(&text).map_err(|source: JsonError| Error::Json { path, source })
    }

    /// Reads the file `name` of the folder, at most 16 MB.
    ///
    /// # Errors
    /// It is absent or longer.
    pub fn read_bytes(&self, name: &str) -> Result<Vec<u8>, Error> {
        read_limited(&self.dir.join(name), MAX_CONFIG_BYTES)
    }

    /// SHA-256 over name and header of every file, in name order: what an in-place export depends on besides `config.json`.
    pub fn headers_digest(&self) -> Digest {
        let mut hasher = Hasher::default();
        for file in &self.files {
            hasher.field(file.name.as_bytes());
            hasher.field(file.header_digest.to_string().as_bytes());
        }
        hasher.finish()
    }

    /// Reads the stored bytes of one tensor (little-endian), without a map.
    ///
    /// # Errors
    /// The file cannot be read, or is shorter than it was.
    pub fn read_tensor(&self, tensor: &TensorInfo) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; usize::try_from(tensor.bytes).unwrap_or(usize::MAX)];
        self.file_of(tensor).read_at(&mut bytes, tensor.offset)?;
        Ok(bytes)
    }

    /// Maps every file; pages are read as they are touched.
    ///
    /// # Errors
    /// The system refuses, or a file has another size than when it was opened.
    pub fn map(&self) -> Result<Mapped, Error> {
        Mapped::new(&self.files)
    }
}

/// Whether there is anything under `path`, a dangling link included: opening that one says what is wrong.
fn exists(path: &Path) -> bool {
    path.is_symlink() || plansmith_files::metadata(path).is_ok()
}

fn name_some(names: &[(&str, &str)]) -> String {
    let listed = names.iter().take(3).map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > 3 { format!("{listed}, …") } else { listed }
}

/// Why a folder without `model.safetensors` and without an index is no checkpoint: what lies there instead.
fn what_else(dir: &Path) -> Result<FolderError, Error> {
    const OTHERS: [(&str, &str); 7] = [
        (".gguf", "a GGUF file"),
        (".bin", "PyTorch's pickle format"),
        (".pt", "PyTorch's pickle format"),
        (".pth", "PyTorch's pickle format"),
        (".h5", "an HDF5 file"),
        (".msgpack", "Flax's format"),
        (".npz", "a NumPy archive"),
    ];
    let paths = plansmith_files::list(dir)?;
    let names = || paths.iter().filter_map(|path| path.file_name()?.to_str());
    if let Some(file) = names().find(|name| name.ends_with(".safetensors")) {
        return Ok(FolderError::OtherName { file: file.to_owned() });
    }
    let other = OTHERS.iter().find_map(|(suffix, format)| Some((names().find(|name| name.ends_with(suffix))?, *format)));
    Ok(other.map_or(FolderError::NoWeights, |(file, format)| FolderError::OtherFormat { file: file.to_owned(), format }))
}
