//! What goes wrong before there is anything to compare.

use std::path::PathBuf;

use plansmith_tensor::SessionError;

use crate::verdict::CheckName;

/// Why a check could not be made. A candidate that merely differs is no error: it is a [`crate::Check`] that did not pass.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] plansmith_files::Error),
    /// A golden file breaks its format, or does not belong to the model.
    #[error("golden file `{}`: {problem}", path.display())]
    Golden {
        /// The file.
        path: PathBuf,
        /// The tensor and what is wrong with it, both sides named.
        problem: String,
        /// What to do.
        hint: String,
    },
    /// A prompt set that no session could run.
    #[error("prompt set `{set}`: {problem}")]
    Prompt {
        /// Name of the set.
        set: String,
        /// The array and what is wrong with it.
        problem: String,
    },
    /// A prompts file as a whole.
    #[error("prompts `{}`: {problem}", path.display())]
    PromptFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A line of a prompts file.
    #[error("prompts `{}` line {line}: {problem}", path.display())]
    PromptLine {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A session refused or failed a step.
    #[error("the {check} check of prompt set `{set}` could not be made on {runtime}")]
    Step {
        /// Which check.
        check: CheckName,
        /// Which prompt set.
        set: String,
        /// `rten`, `ort`, `tensorrt` or `reference`.
        runtime: &'static str,
        /// What the session said.
        #[source]
        source: SessionError,
    },
    /// A session gave a result of a shape that cannot be compared; says both sides.
    #[error("the {check} check of prompt set `{set}`: {runtime} gave {problem}")]
    Output {
        /// Which check.
        check: CheckName,
        /// Which prompt set.
        set: String,
        /// `rten`, `ort`, `tensorrt` or `reference`.
        runtime: &'static str,
        /// What was given and what was wanted.
        problem: String,
    },
    /// Two golden files do not hold the same prompts.
    #[error("cannot compare `{}` with `{}`: {problem}", a.display(), b.display())]
    Compare {
        /// The source.
        a: PathBuf,
        /// The candidate.
        b: PathBuf,
        /// The set or tensor that differs, both sides named.
        problem: String,
    },
}

impl Error {
    /// The next step for whoever reads the error, where there is one beyond the message.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Golden { hint, .. } => Some(hint.clone()),
            Self::Prompt { .. } => Some("use ids of the model's vocabulary and lengths up to its maximum positions".to_owned()),
            Self::PromptFile { .. } | Self::PromptLine { .. } => {
                Some("write one JSON object a line: {\"ids\": [1, 2, 3]} or {\"text\": \"…\"}".to_owned())
            }
            Self::Compare { .. } => Some("capture both files from the same prompts".to_owned()),
            Self::File(_) | Self::Step { .. } | Self::Output { .. } => None,
        }
    }
}
