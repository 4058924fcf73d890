//! Why a spec cannot be lowered or written.

use std::path::PathBuf;

/// A refusal or failure. [`Error::hint`] gives the next step.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither of the operator sets that we write.
    #[error("opset {0} is not written")]
    Opset(u32),
    /// ONNX Runtime's own operators beside the primitive operator set.
    #[error("the dialect onnxruntime is written in opset 23 only, not in {0}")]
    OnnxruntimeOpset(u32),
    /// Another operator set than that of a static cache.
    #[error("opset {0} has no TensorScatter, which writes into a static cache")]
    StaticOpset(u32),
    /// Two ways of keeping the cache in one buffer.
    #[error("a static cache and the dialect onnxruntime do not go together: ONNX Runtime's own operator keeps its buffer itself")]
    StaticDialect,
    /// A static cache of a size that nobody asked for and few have memory for.
    #[error("a static cache for all {slots} positions of the model takes {} MB a row of the batch", bytes / 1_000_000)]
    LargeCache {
        /// Positions of the model.
        slots: u64,
        /// Bytes for one row.
        bytes: u64,
    },
    /// A static cache that is empty, or longer than the model's table of positions.
    #[error("a static cache of max_length {slots} cannot be: {reason}")]
    Slots {
        /// What was asked for.
        slots: u64,
        /// Why not.
        reason: String,
    },
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
    /// The folder is another checkpoint's, whose weights would be replaced.
    #[error("`{}` would be replaced: it has weights of another checkpoint, which the folder holds", path.display())]
    OtherCheckpoint {
        /// The weights.
        path: PathBuf,
    },
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
            Error::OnnxruntimeOpset(_) => Some("leave --opset out, or write another dialect: --dialect portable".into()),
            Error::StaticOpset(_) => Some("leave --opset out, or pass --opset 24".into()),
            Error::StaticDialect => Some("pass one of --kv static and --dialect onnxruntime".into()),
            Error::LargeCache { .. } => {
                Some("pass --max-length N: tokens of the longest sequence, padding included, that will be run".into())
            }
            Error::Slots { .. } => Some("pass --max-length N with a number that the model has positions for".into()),
            Error::Storage { .. } => Some("pass --dtype fp32, or another dtype to convert to".into()),
            Error::NotInPlace(_) => Some("pass --weights auto, which copies the files where it must".into()),
            Error::OtherCheckpoint { .. } => Some("give a folder that is no checkpoint".into()),
            Error::Graph(_) => Some("this is a defect of plansmith: please report it with config.json".into()),
            Error::Checkpoint(error) => error.hint(),
            Error::Family(error) => error.hint(),
            Error::Files(_) => None,
            Error::Audit { .. } => Some("export again; do not ship this graph".into()),
        }
    }
}
