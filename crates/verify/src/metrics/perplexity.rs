//! How well both sides foretell the prompts.

use serde::{Deserialize, Serialize};

use crate::number;

/// Sums of −ln p of the tokens that follow, of source and candidate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Surprise {
    tokens: usize,
    source: f64,
    candidate: f64,
}

/// `e` to the mean of −ln p over the tokens that follow a compared position. Of random ids it says nothing about the model; the difference does
/// about the candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Perplexity {
    /// Tokens.
    pub tokens: usize,
    /// Of the source. `null` is beyond any number.
    #[serde(with = "number::unbounded")]
    pub source: f64,
    /// Of the candidate. `null` is beyond any number.
    #[serde(with = "number::unbounded")]
    pub candidate: f64,
    /// `candidate − source`. `null` is beyond any number.
    #[serde(with = "number::unbounded")]
    pub difference: f64,
}

impl Surprise {
    pub(super) fn add(&mut self, [source, candidate]: [f64; 2]) {
        self.tokens += 1;
        self.source += source;
        self.candidate += candidate;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.tokens += other.tokens;
        self.source += other.source;
        self.candidate += other.candidate;
    }

    pub(crate) fn perplexity(&self) -> Option<Perplexity> {
        let tokens = self.tokens;
        let of = |sum: f64| (sum / tokens as f64).exp();
        let (source, candidate) = (of(self.source), of(self.candidate));
        let difference = if source == candidate { 0.0 } else { candidate - source };
        (tokens > 0).then_some(Perplexity { tokens, source, candidate, difference })
    }
}
