//! What can go wrong before a session exists.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::RuntimeKind;

/// One place where ONNX Runtime's library was looked for, and what was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Searched {
    /// A folder, an environment variable, a package.
    pub place: String,
    /// Why nothing there could be used.
    pub outcome: String,
}

/// Why an artifact could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] plansmith_files::Error),

    /// The bytes are no ONNX graph.
    #[error("{graph} is not an ONNX graph: {reason}")]
    Decode {
        /// The file, or `the graph in memory`.
        graph: String,
        /// What the decoder said.
        reason: String,
    },

    /// The bytes are a graph that breaks the rules of ONNX, or would not survive being run; found before any runtime sees the graph.
    #[error("{graph}: {reason}")]
    Invalid {
        /// The file, or `the graph in memory`.
        graph: String,
        /// What is wrong, by name.
        reason: String,
    },

    /// The graph's inputs and outputs are not those of a decoder with a cache.
    #[error("{graph} is not a decoder graph that can be driven: {reason}")]
    Interface {
        /// The file, or `the graph in memory`.
        graph: String,
        /// Names the input or output.
        reason: String,
        /// Every input and output, a line each.
        listing: String,
    },

    /// What a user says about a graph's names cannot be meant.
    #[error("`--map {entry}`: {problem}")]
    Map {
        /// As it was given.
        entry: String,
        /// What is wrong with it.
        problem: String,
    },

    /// The runtime lacks what the graph needs; another may have it.
    #[error("{runtime} cannot run {graph}: {message}")]
    Unsupported {
        /// Which runtime.
        runtime: RuntimeKind,
        /// The file, or `the graph in memory`.
        graph: String,
        /// What the runtime said.
        message: String,
    },

    /// A tensor's external data cannot be used; found before any runtime sees the graph.
    #[error("cannot load tensor `{tensor}` of {graph}: {reason}")]
    ExternalData {
        /// The file, or `the graph in memory`.
        graph: String,
        /// The initialiser.
        tensor: String,
        /// Names the data file and the sizes.
        reason: String,
    },

    /// No usable ONNX Runtime library.
    #[error("no usable ONNX Runtime library was found; searched:{}", list(.searched))]
    LibraryMissing {
        /// Every place, in the order of the search.
        searched: Vec<Searched>,
    },

    /// Another ONNX Runtime is in use already; a process can load one.
    #[error("{} was asked for, but this process has loaded {}", .wanted.display(), .loaded.display())]
    LibraryLoaded {
        /// In use.
        loaded: PathBuf,
        /// Asked for.
        wanted: PathBuf,
    },

    /// Plans or their worker.
    #[error(transparent)]
    Engine(#[from] plansmith_engine::Error),

    /// The runtime refuses the graph.
    #[error("{runtime} refuses {graph}: {message}")]
    Refused {
        /// Which runtime.
        runtime: RuntimeKind,
        /// The file, or `the graph in memory`.
        graph: String,
        /// What the runtime said.
        message: String,
    },

    /// The runtime itself cannot start.
    #[error("{runtime} cannot start: {message}")]
    Start {
        /// Which runtime.
        runtime: RuntimeKind,
        /// What it said.
        message: String,
    },
}

impl Error {
    /// The next step, where there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::LibraryMissing { .. } => Some(
                "`pip install onnxruntime` for the python3 on PATH, or `cargo xtask setup`, or set ORT_DYLIB_PATH to libonnxruntime.so (1.24 or later); \
                 `--runtime rten` needs none"
                    .to_owned(),
            ),
            Self::LibraryLoaded { .. } => Some("use one library a run".to_owned()),
            Self::ExternalData { .. } => Some("the data file must lie beside the graph, complete, as a regular file".to_owned()),
            Self::Interface { listing, .. } if listing.is_empty() => None,
            Self::Interface { listing, .. } => Some(format!(
                "say what is what with --map OURS=THEIRS (repeatable; * stands for the layer), such as --map input_ids=tokens \
                 --map 'past_key_values.*.key=past.*.k'; ours are input_ids, attention_mask, position_ids, past_key_values.*.key, \
                 past_key_values.*.value, logits, present.*.key and present.*.value. The graph has\n{}",
                listing.trim_end()
            )),
            Self::Map { .. } => Some("--map input_ids=tokens, or --map 'past_key_values.*.key=past.*.k' for every layer".to_owned()),
            Self::Unsupported { runtime, .. } => {
                RuntimeKind::ALL[..2].iter().find(|other| *other != runtime).map(|other| format!("try --runtime {other}"))
            }
            Self::Engine(error) => error.hint(),
            Self::File(_) | Self::Decode { .. } | Self::Invalid { .. } | Self::Refused { .. } | Self::Start { .. } => None,
        }
    }
}

/// What a runtime says of a graph that it does not take.
pub(crate) struct Refusal {
    pub(crate) message: String,
    /// Whether the runtime lacks something, so that another may take the graph.
    pub(crate) unsupported: bool,
}

impl From<String> for Refusal {
    fn from(message: String) -> Self {
        Self { message, unsupported: false }
    }
}

impl Refusal {
    pub(crate) fn into_error(self, runtime: RuntimeKind, graph: &str) -> Error {
        let (graph, message) = (graph.to_owned(), self.message);
        if self.unsupported { Error::Unsupported { runtime, graph, message } } else { Error::Refused { runtime, graph, message } }
    }
}

fn list(searched: &[Searched]) -> String {
    let mut text = String::new();
    for Searched { place, outcome } in searched {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  {place}: {outcome}");
    }
    text
}
