//! What can go wrong, and the exit code that says so.

use std::path::PathBuf;

/// Why a task stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Something that the task needs cannot be had here.
    #[error("{what} cannot be had: {why}")]
    Missing {
        /// What is missing.
        what: String,
        /// Why, in the words of whoever was asked.
        why: String,
        /// The next step.
        hint: String,
    },
    /// A program could not be started or ended badly.
    #[error("`{command}` {outcome}")]
    Command {
        /// The command line.
        command: String,
        /// `exited with 1`, `cannot be started: …`.
        outcome: String,
    },
    /// A program's output is not what was agreed on.
    #[error("{what}: {why}")]
    Unexpected {
        /// Which output.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// Steps of a task failed; each has already said why.
    #[error("{0}")]
    Steps(String),
    /// File access.
    #[error(transparent)]
    File(#[from] plansmith_files::Error),
    /// A JSON file or output does not parse.
    #[error("cannot parse `{}`", path.display())]
    Json {
        /// Which file.
        path: PathBuf,
        /// What the parser said.
        #[source]
        source: serde_json::Error,
    },
}

impl Error {
    /// 1: a check failed. 2: refused, or something is missing.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Steps(_) | Self::Command { .. } => 1,
            Self::Missing { .. } | Self::Unexpected { .. } | Self::File(_) | Self::Json { .. } => 2,
        }
    }

    /// The next step, where there is one.
    pub(crate) fn hint(&self) -> Option<&str> {
        match self {
            Self::Missing { hint, .. } => Some(hint),
            _ => None,
        }
    }
}
