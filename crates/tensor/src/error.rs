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
    /// A static cache has no slots left for the step. A check that needs more does not apply.
    #[error("{tokens} tokens a row do not fit its static cache: max_length is {max_length}")]
    Full {
        /// Tokens a row after the step, padding included.
        tokens: usize,
        /// Slots a row.
        max_length: usize,
    },
    /// The runtime failed to execute.
    #[error("{runtime} failed: {message}")]
    Runtime {
        /// `rten`, `ort`, `tensorrt` or `reference`.
        runtime: &'static str,
        /// What it said.
        message: String,
    },
}

impl SessionError {
    /// Why the session cannot take an input that is right in itself; `None` for any other failure.
    pub fn inapplicable(&self) -> Option<String> {
        match self {
            Self::Unsupported(reason) => Some(reason.clone()),
            Self::Full { .. } => Some(self.to_string()),
            Self::Batch(_) | Self::Runtime { .. } => None,
        }
    }

    /// The next step, where there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Full { .. } => Some("run fewer tokens, or export with a larger --max-length".to_owned()),
            Self::Batch(_) | Self::Unsupported(_) | Self::Runtime { .. } => None,
        }
    }
}
