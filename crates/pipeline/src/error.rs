//! Why a pipeline is refused or fails.

use std::path::PathBuf;
use std::sync::Arc;

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
    /// The checkpoint's weights.
    #[error(transparent)]
    Checkpoint(#[from] plansmith_checkpoint::Error),
    /// The config, the graph or its files.
    #[error(transparent)]
    Lowering(#[from] plansmith_lowering::Error),
    /// A graph on disk.
    #[error(transparent)]
    Onnx(#[from] plansmith_onnx::Error),
    /// The built-in reference.
    #[error(transparent)]
    Reference(#[from] plansmith_reference::Error),
    /// A runtime.
    #[error(transparent)]
    Runtime(#[from] plansmith_runtime::Error),
    /// A golden, prompts or a check.
    #[error(transparent)]
    Verify(#[from] plansmith_verify::Error),
    /// The provenance, its signature or a key.
    #[error(transparent)]
    Attest(#[from] plansmith_attest::Error),
    /// A bundle's manifest cannot be read, or was changed.
    #[error("`{}` {problem}", path.display())]
    Manifest {
        /// The manifest, or what stands in its place.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A bundle's file is not what the manifest says.
    #[error("`{}` {problem}", path.display())]
    Bundle {
        /// The file.
        path: PathBuf,
        /// What is wrong, both sides.
        problem: String,
    },
    /// The source is not the one that the pipeline pins.
    #[error("{}: {problem}", path.display())]
    Pin {
        /// The file, or the checkpoint's folder.
        path: PathBuf,
        /// Both sides.
        problem: String,
    },
    /// No stage has this name.
    #[error("no stage is called `{name}`")]
    UnknownStage {
        /// As given.
        name: String,
        /// All there are.
        known: Vec<String>,
    },
    /// What builds a plan is not here.
    #[error("`{stage}` cannot be built: {why}")]
    NoTools {
        /// The stage.
        stage: String,
        /// What is missing, or what failed when it was started.
        why: Arc<plansmith_engine::Error>,
    },
    /// A plan that only a GPU can build, and there is none.
    #[error("`{stage}` is of the enterprise flavour, which builds on the GPU that a plan is for; this machine has none that can be used")]
    NoGpu {
        /// The stage.
        stage: String,
    },
    /// Parts that were to be joined do not have all stages.
    #[error("the parts do not have {}", missing.join(", "))]
    MissingStages {
        /// Their names.
        missing: Vec<String>,
    },
    /// What is to be written does not fit.
    #[error("about {needed} bytes are to be written to `{}`, whose file system has {free} free: {} are missing", path.display(), needed - free)]
    Space {
        /// The folder being filled.
        path: PathBuf,
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// Another build writes to the same output.
    #[error("another build is writing `{}`", path.display())]
    Busy {
        /// The folder being filled.
        path: PathBuf,
    },
    /// A weight is NaN or infinite.
    #[error("{}: tensor `{tensor}` holds values that are not finite ({seen})", path.display())]
    NotFinite {
        /// The weight file.
        path: PathBuf,
        /// The first such tensor.
        tensor: String,
        /// What was seen in it.
        seen: String,
    },
}

impl Error {
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::Yaml { hint, .. } | Error::Invalid { hint, .. } => hint.clone(),
            Error::Override { .. } => Some("paths are as in the file, with dots and indices: --set export.0.dtype=bf16".into()),
            Error::Attest(error) => error.hint(),
            Error::Engine(error) => error.hint(),
            Error::Checkpoint(error) => error.hint(),
            Error::Lowering(error) => error.hint(),
            Error::Reference(error) => error.hint(),
            Error::Runtime(error) => error.hint(),
            Error::Verify(error) => error.hint(),
            Error::Manifest { .. } => Some("a bundle is the folder that `plansmith build` wrote: build it again, or fetch it again".into()),
            Error::Bundle { .. } => Some("the bundle was changed or damaged: fetch it again, or build it again".into()),
            Error::Pin { .. } => Some("fetch the revision that is pinned, or correct `source` in the pipeline file".into()),
            Error::UnknownStage { known, .. } => Some(format!("stages are {}", known.join(", "))),
            Error::NoTools { why, .. } => {
                let graphs = "`--stage export` builds the graphs without it";
                Some(why.hint().map_or_else(|| graphs.to_owned(), |hint| format!("{hint}; {graphs}")))
            }
            Error::NoGpu { .. } => Some(
                "run the build on a machine with that GPU (`plansmith doctor` shows what is there), or build plans of the rtx flavour, which \
                 need none; `--stage export` builds the graphs alone"
                    .into(),
            ),
            Error::MissingStages { missing } => {
                let first = missing.first().map_or("NAME", String::as_str);
                Some(format!("make them: plansmith build PIPELINE --only {first} --set output=PART"))
            }
            Error::Space { .. } => Some("make room, or write elsewhere with --set output=DIR".into()),
            Error::Busy { .. } => Some("wait for it to end, or stop it".into()),
            Error::NotFinite { .. } => Some("the checkpoint is broken: fetch it again, or repair it where it was made".into()),
            Error::Files(_) | Error::Onnx(_) => None,
        }
    }
}
