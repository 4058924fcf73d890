//! The error of a session.

/// What a [`crate::Session`] reports when it cannot do a step.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The batch does not fit the signature or what the cache holds; says both sides.
    #[error("the batch does not fit: {0}")]
    Batch(String),
    /// What is asked for is right and cannot be expressed in this graph's form (left padding without `position_ids`, for example). A check that
    /// needs it does not apply.
    #[error("the graph cannot take this input: {0}")]
    Unsupported(String),
    /// The runtime failed to execute.
    #[error("{runtime} failed: {message}")]
    Runtime {
        /// `rten`, `ort`, `tensorrt` or `reference`.
        runtime: &'static str,
        /// What it said.
        message: String,
    },
}
