//! The one error of this crate.

use std::path::{Path, PathBuf};

use plansmith_tensor::DType;

use crate::header::HeaderError;
use crate::index::IndexError;
use crate::json::JsonError;

/// What went wrong with a checkpoint. [`Error::hint`] gives the next step.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refused.
    #[error(transparent)]
    File(#[from] plansmith_files::Error),
    /// A file is no valid safetensors file.
    #[error("`{}` is no valid safetensors file", path.display())]
    Header {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: HeaderError,
    },
    /// An index is wrong, by itself or against its shards.
    #[error("`{}` is no valid index of this checkpoint", path.display())]
    Index {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: IndexError,
    },
    /// A JSON file beside the weights is wrong.
    #[error("`{}` cannot be used", path.display())]
    Json {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: JsonError,
    },
    /// A folder is no checkpoint that we read.
    #[error("`{}` is no checkpoint that can be read", dir.display())]
    Folder {
        /// Which.
        dir: PathBuf,
        /// Why.
        #[source]
        source: FolderError,
    },
    /// The path of a weight file is no regular file.
    #[error("`{}` is no regular file", .0.display())]
    NotAFile(PathBuf),
    /// A tensor was asked for that the checkpoint does not hold.
    #[error("`{}` holds no tensor `{name}`", dir.display())]
    NoTensor {
        /// The checkpoint's folder.
        dir: PathBuf,
        /// The tensor.
        name: String,
    },
    /// A conversion that we do not do.
    #[error("cannot convert {}from {from} to {to}: only F64, F32, F16 and BF16 are converted, to F32, F16 and BF16", quoted(tensor.as_deref()))]
    Conversion {
        /// The tensor's name in the checkpoint, where it is known.
        tensor: Option<String>,
        /// Stored dtype.
        from: DType,
        /// Wanted dtype.
        to: DType,
    },
    /// Bytes that are no whole number of elements.
    #[error("{bytes} bytes are no whole number of {dtype} elements")]
    PartialElement {
        /// How many bytes there are.
        bytes: usize,
        /// Their dtype.
        dtype: DType,
    },
    /// Weights that are not finite, before or after a cast; nothing was written.
    #[error("weights would not be finite in `{}`:{}", target.display(), list(problems))]
    NotFinite {
        /// The file that was to be written.
        target: PathBuf,
        /// One entry a tensor, in plan order.
        problems: Vec<RangeProblem>,
    },
    /// Two entries of a plan have one name.
    #[error("tensor `{0}` is planned twice")]
    PlannedTwice(String),
    /// A file is not what it was when the checkpoint was opened.
    #[error("`{}` changed while it was being read: it had {was} bytes and has {now}", path.display())]
    Changed {
        /// Which.
        path: PathBuf,
        /// Bytes when it was opened.
        was: u64,
        /// Bytes now.
        now: u64,
    },
}

impl Error {
    /// The next step, where there is one to name.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Header { source, .. } => source.hint(),
            Self::Index { source, .. } => source.hint(),
            Self::Folder { dir, source } => source.hint(dir),
            Self::NotFinite { problems, .. } if problems.iter().all(|problem| problem.overflow.is_some()) => {
                Some("these weights need the exponent range of fp32 or bf16: use `--dtype bf16`, or `--dtype source`".to_owned())
            }
            Self::NotFinite { .. } => Some("the checkpoint itself is damaged: save or download it again".to_owned()),
            Self::Changed { .. } => Some("run again once nothing writes to the checkpoint".to_owned()),
            _ => None,
        }
    }
}

/// Why a folder is no checkpoint.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum FolderError {
    #[error("it is no folder")]
    NotAFolder,
    #[error("it holds no weights: neither `model.safetensors` nor `model.safetensors.index.json`")]
    NoWeights,
    #[error("its weights are in `{file}`, {format}; safetensors and GGUF are read")]
    OtherFormat { file: String, format: &'static str },
    #[error("it holds `{file}`, but neither `model.safetensors` nor `model.safetensors.index.json`")]
    OtherName { file: String },
    #[error("it holds both `model.safetensors` and an index, which names other files ({named}): which of them counts is ambiguous")]
    SingleAndIndex { named: String },
}

impl FolderError {
    fn hint(&self, dir: &Path) -> Option<String> {
        Some(match self {
            Self::NotAFolder => "pass the folder that holds config.json and the weights".to_owned(),
            Self::NoWeights => {
                "pass the folder that holds config.json and the weights; of other files name one: .onnx, .plan, .gguf".to_owned()
            }
            Self::OtherFormat { file, .. } if file.ends_with(".gguf") => {
                format!("`plansmith import {} -o DIR` makes a checkpoint of it", dir.join(file).display())
            }
            Self::OtherFormat { file, .. } => format!(
                "convert it in Python: load it with `torch.load(\"{file}\", weights_only=True)` and write `model.safetensors` with \
                 `safetensors.torch.save_file`, or load the folder with transformers and call `save_pretrained`"
            ),
            Self::OtherName { file } if file.contains("-of-") => {
                "these are shards: download `model.safetensors.index.json`, which belongs to them".to_owned()
            }
            Self::OtherName { .. } => "rename it to `model.safetensors` if it holds the weights".to_owned(),
            Self::SingleAndIndex { .. } => "remove `model.safetensors`, or the index and its shards".to_owned(),
        })
    }
}

/// Why one tensor cannot be written as planned.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeProblem {
    /// The tensor's name in the checkpoint.
    pub tensor: String,
    /// The file of the checkpoint that holds it.
    pub file: String,
    /// Wanted dtype.
    pub dtype: DType,
    /// Element index (row-major) of the first NaN in the source.
    pub nan: Option<u64>,
    /// Element index of the first infinity in the source.
    pub infinite: Option<u64>,
    /// The first finite element that the cast makes infinite: index, value, and how many there are.
    pub overflow: Option<crate::Overflow>,
}

fn quoted(tensor: Option<&str>) -> String {
    tensor.map_or_else(String::new, |tensor| format!("tensor `{tensor}` "))
}

const LISTED: usize = 8;

fn list(problems: &[RangeProblem]) -> String {
    let mut text = String::new();
    for RangeProblem { tensor, file, dtype, nan, infinite, overflow } in problems.iter().take(LISTED) {
        text.push_str(&format!("\n  `{tensor}` in `{file}`: "));
        text.push_str(&match (nan, infinite, overflow) {
            (Some(index), ..) => format!("element {index} is NaN"),
            (None, Some(index), _) => format!("element {index} is infinite"),
            (None, None, Some(over)) => {
                format!("element {} is {:e}, beyond {dtype} ({} elements are)", over.index, over.value, over.count)
            }
            (None, None, None) => "finite".to_owned(),
        });
    }
    if problems.len() > LISTED {
        text.push_str(&format!("\n  and {} more tensors", problems.len() - LISTED));
    }
    text
}
