//! Why a pipeline is refused or fails.

use std::path::PathBuf;

/// A refusal or failure. [`Error::hint`] gives the next step.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is no valid pipeline.
    #[error("{}:{line}:{column}: {problem}\n    {source_line}", path.display())]
    Yaml {
        /// The pipeline file.
        path: PathBuf,
        /// From 1; 0 where unknown.
        line: usize,
        /// From 1; 0 where unknown.
        column: usize,
        /// What is wrong.
        problem: String,
        /// The line itself.
        source_line: String,
        /// The nearest key.
        hint: Option<String>,
    },
    /// The types are right, but a value does not fit the others.
    #[error("{}: `{key}` {problem}", path.display())]
    Invalid {
        /// The pipeline file.
        path: PathBuf,
        /// With dots and indices.
        key: String,
        /// What is wrong.
        problem: String,
        /// The nearest value.
        hint: Option<String>,
    },
    /// `--set` does not fit.
    #[error("--set {assignment}: {problem}")]
    Override {
        /// As given.
        assignment: String,
        /// What is wrong.
        problem: String,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    Files(#[from] plansmith_files::Error),
    /// A profile, an architecture or the worker.
    #[error(transparent)]
    Engine(#[from] plansmith_engine::Error),
}

impl Error {
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::Yaml { hint, .. } | Error::Invalid { hint, .. } => hint.clone(),
            Error::Override { .. } => Some("paths are as in the file, with dots and indices: --set export.0.dtype=bf16".into()),
            Error::Engine(error) => error.hint(),
            Error::Files(_) => None,
        }
    }
}
