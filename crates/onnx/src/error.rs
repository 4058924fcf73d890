//! The one error of this crate.

/// Why bytes are not a model that we can use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] plansmith_files::Error),
    /// The bytes are not a protobuf message, or nest deeper than 100 messages.
    #[error("not an ONNX model: {0}")]
    Decode(#[from] prost::DecodeError),
    /// The message has no graph: it is empty or some other protobuf message.
    #[error("not an ONNX model: the message holds no graph")]
    NoGraph,
    /// An external-data reference that cannot be followed safely.
    #[error("tensor `{tensor}`: external data: {problem}")]
    External {
        /// The tensor's name.
        tensor: String,
        /// What is wrong, with the value found.
        problem: String,
    },
    /// An input or output whose type a signature cannot express.
    #[error("`{name}`: {problem}")]
    Signature {
        /// The input's or output's name.
        name: String,
        /// What is wrong, with the value found.
        problem: String,
    },
}
