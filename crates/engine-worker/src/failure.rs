//! Failures as the client gets them.

use plansmith_engine::protocol::Failure;

/// A failure with the lines of TensorRT's log that belong to it.
pub(crate) fn failed(message: impl Into<String>, log: Vec<String>) -> Failure {
    Failure::Other { message: message.into(), log }
}

/// A failure with the chain of causes written out.
pub(crate) fn because(message: &str, error: &dyn std::error::Error) -> Failure {
    let mut text = format!("{message}: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    failed(text, Vec::new())
}
