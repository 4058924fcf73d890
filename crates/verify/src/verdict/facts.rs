//! What a run was given.

use std::collections::BTreeMap;

use plansmith_files::Digest;
use serde::{Deserialize, Serialize};

use crate::Prompts;

/// What the candidates were compared with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceFacts {
    /// The checkpoint's folder, as the user named it.
    pub path: String,
    /// Revision, where it is known.
    pub revision: Option<String>,
    /// Of each of its files.
    pub sha256: BTreeMap<String, Digest>,
}

/// The golden file of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoldenFacts {
    /// File, as the user named it.
    pub path: String,
    /// Of the file.
    pub sha256: Digest,
    /// Who computed it, where it says so.
    pub producer: Option<String>,
}

/// The prompts of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptFacts {
    /// `builtin`, or the file as the user named it.
    pub origin: String,
    /// [`Prompts::hash`].
    pub sha256: Digest,
    /// Number of sets.
    pub sets: usize,
}

impl PromptFacts {
    /// The facts of `prompts`.
    pub fn of(prompts: &Prompts, origin: &str) -> Self {
        Self { origin: origin.to_owned(), sha256: prompts.hash(), sets: prompts.sets().len() }
    }
}

/// The largest magnitudes that the blocks of one layer of the source gave, over all prompts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LayerPeaks {
    /// In attention.
    pub self_attn: f64,
    /// In the feed-forward part.
    pub mlp: f64,
    /// In the residual stream.
    pub residual: f64,
}
