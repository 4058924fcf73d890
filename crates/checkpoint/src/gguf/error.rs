//! Why a GGUF file was refused, with the next step.

use std::path::{Path, PathBuf};

use plansmith_tensor::DType;

use super::GgmlType;
use crate::Foreign;

/// An import that did not happen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading or writing failed.
    #[error(transparent)]
    Files(#[from] plansmith_files::Error),
    /// The file is no GGUF, a damaged one, or one that cannot become a checkpoint without a guess.
    #[error("cannot import `{}`", path.display())]
    Refused {
        /// The GGUF file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        problem: Box<Problem>,
    },
    /// The weights were asked for in a dtype that import does not write.
    #[error("import writes F32 or BF16, not {0}")]
    DType(DType),
    /// The folder to write holds something that import would destroy.
    #[error("will not replace the folder `{}`", path.display())]
    Folder {
        /// The folder that was to be written.
        path: PathBuf,
        /// What it holds.
        #[source]
        problem: FolderProblem,
    },
}

/// What stands in the way of a folder's replacement.
#[derive(Debug, thiserror::Error)]
pub enum FolderProblem {
    /// A plain file has the name.
    #[error("it is not a folder")]
    NotAFolder,
    /// A link to nothing has the name.
    #[error("it is a link that leads nowhere")]
    Dangling,
    /// Files that no import writes.
    #[error("it holds `{0}`, which no import writes")]
    Foreign(String),
    /// A checkpoint that came from elsewhere.
    #[error("its `model.safetensors` was not written by an import")]
    NotImported,
    /// A file that somebody changed since the import.
    #[error("its `{0}` is not as the import wrote it")]
    Edited(String),
    /// The GGUF itself.
    #[error("it holds the GGUF file itself")]
    Source,
}

/// What is wrong with a GGUF file.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Problem {
    #[error("it is no regular file")]
    NotAFile,
    #[error("it does not begin with `GGUF`{}", .0.map(|foreign| format!("; it is {foreign}")).unwrap_or_default())]
    Magic(Option<Foreign>),
    #[error("it is big-endian")]
    BigEndian,
    #[error("it has GGUF version {0}; versions 2 and 3 are read")]
    Version(u32),
    #[error("{what} takes {needed} bytes; the file has {available} more")]
    Truncated { what: String, needed: u64, available: u64 },
    #[error("{what} is {found}; at most {limit} is allowed")]
    Limit { what: String, found: u64, limit: u64 },
    #[error("{what} is not UTF-8")]
    Utf8 { what: String },
    #[error("metadata key `{0}` is there twice")]
    DuplicateKey(String),
    #[error("tensor `{0}` is there twice")]
    DuplicateTensor(String),
    #[error("metadata key `{key}` has the unknown value type {id}")]
    ValueType { key: String, id: u32 },
    #[error("metadata key `{0}` holds an array of arrays")]
    NestedArray(String),
    #[error("metadata key `{key}` holds the byte {byte} as a bool")]
    Bool { key: String, byte: u8 },
    #[error("`general.alignment` is {0}; a power of two from 1 to 2^20 is needed")]
    Alignment(u64),
    #[error("tensor `{tensor}` has the unknown ggml type {id}")]
    TensorType { tensor: String, id: u32 },
    #[error("tensor `{tensor}`: shape {shape:?} has more bytes than 2^63")]
    TooLarge { tensor: String, shape: Vec<u64> },
    #[error("tensor `{tensor}`: rows of {row} elements are no multiple of the {block} in a block of {ggml_type}")]
    Row { tensor: String, row: u64, block: usize, ggml_type: GgmlType },
    #[error("tensor `{tensor}` begins at offset {offset}, which is no multiple of the alignment {alignment}")]
    Offset { tensor: String, offset: u64, alignment: u64 },
    #[error("tensor `{tensor}` ends at byte {end}; the file has {size}")]
    PastEnd { tensor: String, end: u64, size: u64 },
    #[error("tensors `{first}` and `{second}` overlap at byte {at} of the file")]
    Overlap { first: String, second: String, at: u64 },
    #[error("metadata key `{0}` is missing")]
    MissingKey(String),
    #[error("metadata key `{key}` is {found}; {expected} is needed")]
    KeyType { key: String, found: String, expected: &'static str },
    #[error("its architecture is `{0}`; only `llama` is imported")]
    Architecture(String),
    #[error("metadata key `{key}` is {value}: {reason}")]
    Key { key: String, value: String, reason: String },
    #[error("metadata key `{key}` ({value}) is not known, and it may change what the model computes")]
    UnknownKey { key: String, value: String },
    #[error("tensor `{0}` has no place in a llama model of this many layers")]
    UnknownTensor(String),
    #[error("tensor `{tensor}` is missing: {reason}")]
    MissingTensor { tensor: String, reason: String },
    #[error("tensor `{tensor}`: shape is {found:?}; the metadata implies {expected:?} ({reason})")]
    Shape { tensor: String, found: Vec<u64>, expected: Vec<u64>, reason: String },
    #[error("tensor `{tensor}` is stored as {ggml_type}, which holds no weights that could be read back")]
    NotWeights { tensor: String, ggml_type: GgmlType },
    #[error("tensor `{tensor}` has {count} elements that are infinite or NaN as {dtype}, the first after element {first}")]
    NotFinite { tensor: String, count: u64, first: u64, dtype: DType },
    #[error("tensor `rope_freqs.weight` {0}")]
    RopeFactors(String),
    #[error("its tokenizer cannot be rebuilt: {0}")]
    Tokenizer(String),
}

impl Problem {
    /// The problem as an error about `path`.
    pub(super) fn at(self, path: &Path) -> Error {
        Error::Refused { path: path.to_owned(), problem: Box::new(self) }
    }
}

impl Error {
    /// The next step, where there is one to name.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Files(_) => None,
            Self::DType(_) => Some("import as F32 or BF16; `plansmith export` converts further".to_owned()),
            Self::Folder { problem, .. } => Some(match problem {
                FolderProblem::NotAFolder | FolderProblem::Dangling => "choose another name for the folder".to_owned(),
                FolderProblem::Source => "choose a folder that does not hold the GGUF: the old content would be deleted".to_owned(),
                FolderProblem::Foreign(_) | FolderProblem::NotImported | FolderProblem::Edited(_) => {
                    "choose another folder, or add `--force` to delete what it holds".to_owned()
                }
            }),
            Self::Refused { problem, .. } => problem.hint(),
        }
    }
}

impl Problem {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Magic(Some(foreign)) if *foreign != Foreign::Gguf => return Some(foreign.hint().to_owned()),
            Self::Truncated { .. } | Self::PastEnd { .. } => {
                "the file is incomplete: download it again, and compare its size with the source"
            }
            Self::BigEndian => "llama.cpp's `gguf_convert_endian.py` makes a little-endian file of it",
            Self::Version(1) => "files of version 1 are from before August 2023: convert the original checkpoint again",
            Self::Architecture(_) => "import the original checkpoint's safetensors files instead, where its family is supported",
            Self::Key { key, .. } if key == "split.count" => "merge the parts with llama.cpp's `llama-gguf-split --merge`",
            Self::UnknownKey { .. } | Self::Key { .. } | Self::RopeFactors(_) => {
                "take the original safetensors checkpoint instead: its config.json states what this file leaves open"
            }
            Self::Tokenizer(_) => "take tokenizer.json from the original checkpoint; weights alone are not imported",
            Self::TensorType { .. } | Self::NotWeights { .. } => {
                "quantise the model again, to one of the types that GGUF names for weights"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }
}
