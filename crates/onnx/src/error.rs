//! The one error of this crate.

use std::path::PathBuf;

/// Why bytes are not a model that we can use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] plansmith_files::Error),
    /// What is wrong with the model in a file.
    #[error("{}: {problem}", path.display())]
    InFile {
        /// The model file.
        path: PathBuf,
        /// Any other of these errors.
        problem: Box<Error>,
    },
    /// A folder, a pipe, a device.
    #[error("not an ONNX model: it is no regular file")]
    NotAFile,
    /// Beyond what protobuf allows.
    #[error("not an ONNX model: it has {size} bytes; 2147483647 are the most that a protobuf message may have")]
    TooLarge {
        /// Bytes of the file.
        size: u64,
    },
    /// Mostly empty messages.
    #[error("not an ONNX model: {bytes} bytes would unfold into over {limit} bytes of memory")]
    Budget {
        /// Bytes of the model.
        bytes: u64,
        /// The most that so many bytes may take.
        limit: u64,
    },
    /// The bytes are not a protobuf message, or nest deeper than 100 messages.
    #[error("not an ONNX model: {0}")]
    Decode(String),
    /// The message has no graph: it is empty or some other protobuf message.
    #[error("not an ONNX model: the message holds no graph")]
    NoGraph,
    /// A structure that runtimes refuse, or read otherwise than we do.
    #[error("not a valid ONNX model: {problem}{}", and_more(*.more))]
    Invalid {
        /// The first thing that is wrong, by name.
        problem: String,
        /// How many more there are.
        more: usize,
    },
    /// A tensor whose data is not what it says, or cannot be followed safely.
    #[error("tensor `{}`: {problem}", tensor.escape_debug())]
    Tensor {
        /// The tensor's name.
        tensor: String,
        /// What is wrong, with the value found.
        problem: String,
    },
    /// An input or output whose type a signature cannot express.
    #[error("`{}`: {problem}", name.escape_debug())]
    Signature {
        /// The input's or output's name.
        name: String,
        /// What is wrong, with the value found.
        problem: String,
    },
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" (and {more} more findings)") }
}
