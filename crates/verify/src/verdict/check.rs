//! One check's figures, and what it was held against.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::metrics::{Metrics, Place};
use crate::tolerance::Tolerance;

/// One way of comparing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckName {
    /// One prefill of the whole batch.
    Prefill,
    /// A first part, then token by token through the cache.
    Decode,
    /// Rows alone against rows in a padded batch.
    Padded,
    /// Keys and values.
    Cache,
}

impl CheckName {
    /// As in `verdict.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Padded => "padded",
            Self::Cache => "cache",
        }
    }

    /// Why it did not apply, where it did not.
    pub(crate) fn needs(self) -> &'static str {
        match self {
            Self::Prefill => "no position with logits was given by the candidate",
            Self::Decode => "needs a sequence of at least two tokens with logits in its second half",
            Self::Padded => "needs a batch, or a sequence of at least two tokens",
            Self::Cache => "needs a source that can be executed",
        }
    }
}

impl fmt::Display for CheckName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whose logits one check was made against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OracleKind {
    /// A golden file.
    Golden,
    /// The built-in reference.
    Reference,
}

/// One check of one candidate, summed up over its prompt sets: the worst of each figure, positions added up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Which check.
    pub name: CheckName,
    /// Against whose logits.
    pub oracle: OracleKind,
    /// Whether every figure is within `tolerance`.
    pub passed: bool,
    /// What failed, with both sides of each comparison; empty where it passed.
    pub failures: Vec<String>,
    /// Positions compared.
    pub positions: usize,
    /// See [`Metrics::max_abs`].
    pub max_abs: f64,
    /// See [`Metrics::mean_abs`].
    pub mean_abs: f64,
    /// See [`Metrics::max_rel`].
    pub max_rel: f64,
    /// See [`Metrics::mean_rel`].
    pub mean_rel: f64,
    /// See [`Metrics::kl_mean`]. `null` for `cache`.
    pub kl_mean: Option<f64>,
    /// See [`Metrics::kl_p99`]. `null` for `cache`.
    pub kl_p99: Option<f64>,
    /// See [`Metrics::kl_max`]. `null` for `cache`.
    pub kl_max: Option<f64>,
    /// See [`Metrics::top1_agreement`]. `null` for `cache`.
    pub top1_agreement: Option<f64>,
    /// See [`Metrics::top5_overlap`]. `null` for `cache`.
    pub top5_overlap: Option<f64>,
    /// See [`Metrics::decided`].
    pub decided: usize,
    /// See [`Metrics::decided_flips`].
    pub decided_flips: usize,
    /// See [`Metrics::nonfinite`].
    pub nonfinite: usize,
    /// What it was held against.
    pub tolerance: Tolerance,
    /// Where the worst figure is.
    pub worst: Option<Worst>,
}

/// The place of the largest difference, or of the first value that is not finite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worst {
    /// Prompt set.
    pub set: String,
    /// Row and column of the batch as it was fed.
    #[serde(flatten)]
    pub place: Place,
}

impl Check {
    pub(crate) fn new(name: CheckName, oracle: OracleKind, metrics: &Metrics, worst_set: String, tolerance: &Tolerance) -> Self {
        let failures = tolerance.failures(metrics);
        Self {
            name,
            oracle,
            passed: failures.is_empty(),
            failures,
            positions: metrics.positions,
            max_abs: metrics.max_abs,
            mean_abs: metrics.mean_abs,
            max_rel: metrics.max_rel,
            mean_rel: metrics.mean_rel,
            kl_mean: metrics.kl_mean,
            kl_p99: metrics.kl_p99,
            kl_max: metrics.kl_max,
            top1_agreement: metrics.top1_agreement,
            top5_overlap: metrics.top5_overlap,
            decided: metrics.decided,
            decided_flips: metrics.decided_flips,
            nonfinite: metrics.nonfinite,
            tolerance: tolerance.clone(),
            worst: metrics.worst.map(|place| Worst { set: worst_set, place }),
        }
    }
}

/// A check that did not apply, to all of the prompt sets or to those that `reason` names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Which check.
    pub name: CheckName,
    /// Against whose logits it would have been.
    pub oracle: OracleKind,
    /// Why not.
    pub reason: String,
}
