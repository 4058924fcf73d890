//! Why a checkpoint cannot be executed.

use plansmith_tensor::DType;

/// What stops [`crate::Reference::open`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tensor is absent, or the files cannot be mapped.
    #[error(transparent)]
    Checkpoint(#[from] plansmith_checkpoint::Error),
    /// A tensor has another shape than the spec says.
    #[error("tensor `{name}` has shape {found:?}; the spec needs {wanted:?} ({because})")]
    Shape {
        /// Which.
        name: String,
        /// As stored.
        found: Vec<u64>,
        /// As the spec has it.
        wanted: Vec<u64>,
        /// How the config implies that.
        because: String,
    },
    /// A tensor is stored in a type that the reference does not widen.
    #[error("tensor `{name}` is stored as {dtype}; the reference reads F32, F16 and BF16")]
    DType {
        /// Which.
        name: String,
        /// As stored.
        dtype: DType,
    },
    /// A tensor is larger than this machine can address.
    #[error("tensor `{name}` of shape {shape:?} does not fit the address space")]
    TooLarge {
        /// Which.
        name: String,
        /// As stored.
        shape: Vec<u64>,
    },
}

impl Error {
    /// The next step, where there is one to name.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Checkpoint(error) => error.hint(),
            Self::Shape { .. } => Some("load the spec from the config.json that belongs to these weights".to_owned()),
            Self::DType { .. } => Some("save the checkpoint in fp32, fp16 or bf16".to_owned()),
            Self::TooLarge { .. } => None,
        }
    }
}
