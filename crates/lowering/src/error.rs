//! Why a spec cannot be lowered or written.

/// A refusal or failure. [`Error::hint`] gives the next step.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither of the operator sets that we write.
    #[error("opset {0} is not written")]
    Opset(u32),
    /// A weight that is no float we compute in.
    #[error("tensor `{name}` is stored as {dtype}, which graphs do not compute in")]
    Storage {
        /// Which tensor.
        name: String,
        /// How it is stored.
        dtype: plansmith_tensor::DType,
    },
    /// `--weights in-place` where the graph cannot point at the files as they are.
    #[error("the weights cannot be used in place: {0}")]
    NotInPlace(String),
    /// The graph would be ill-typed: a defect of ours, with the scope and both sides.
    #[error("cannot build the graph")]
    Graph(#[from] plansmith_graph::Error),
    /// The checkpoint cannot be read or converted.
    #[error(transparent)]
    Checkpoint(#[from] plansmith_checkpoint::Error),
    /// The config is not understood.
    #[error(transparent)]
    Family(#[from] plansmith_families::Error),
    /// A file cannot be written.
    #[error(transparent)]
    Files(#[from] plansmith_files::Error),
    /// An initialiser differs from its source tensor after the declared conversion.
    #[error("initializer `{name}` differs from its source tensor: {problem}")]
    Audit {
        /// Which initializer.
        name: String,
        /// How.
        problem: String,
    },
}

impl Error {
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::Opset(_) => Some("pass --opset 23 (composite operators) or --opset 21 (primitive operators)".into()),
            Error::Storage { .. } => Some("pass --dtype fp32, or another dtype to convert to".into()),
            Error::NotInPlace(_) => Some("pass --weights auto, which copies the files where it must".into()),
            Error::Graph(_) => Some("this is a defect of plansmith: please report it with config.json".into()),
            Error::Checkpoint(error) => error.hint(),
            Error::Family(error) => error.hint(),
            Error::Files(_) => None,
            Error::Audit { .. } => Some("export again; do not ship this graph".into()),
        }
    }
}
