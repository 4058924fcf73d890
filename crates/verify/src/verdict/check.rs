//! One check's figures, and what it was held against.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::metrics::{ByPosition, Flip, KlHistogram, Metrics, Perplexity, Place};
use crate::noise::Floor;
use crate::number::short;
use crate::tolerance::Tolerance;

/// One way of comparing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckName {
    /// One prefill of the whole batch.
    Prefill,
    /// Each row's last token in that prefill.
    Last,
    /// The prompt in three uneven parts.
    Chunked,
    /// A first part, then token by token through the cache.
    Decode,
    /// Rows alone against rows in a padded batch.
    Padded,
    /// A row beside one that is nothing but padding.
    MaskedRow,
    /// A row alone against the same row twice in a batch.
    Batch,
    /// What the source generates, token by token.
    Greedy,
    /// Keys and values.
    Cache,
}

/// Checks that are not to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckSet(u16);

impl FromIterator<CheckName> for CheckSet {
    fn from_iter<I: IntoIterator<Item = CheckName>>(checks: I) -> Self {
        Self(checks.into_iter().fold(0, |set, check| set | 1 << check as u16))
    }
}

impl CheckSet {
    /// Whether `check` is among them.
    pub fn contains(self, check: CheckName) -> bool {
        self.0 & 1 << check as u16 != 0
    }
}

/// Not the name of a check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no check; there are {all}", all = CheckName::ALL.map(CheckName::name).join(", "))]
pub struct UnknownCheck(String);

impl FromStr for CheckName {
    type Err = UnknownCheck;

    fn from_str(name: &str) -> Result<Self, UnknownCheck> {
        Self::ALL.into_iter().find(|check| check.name() == name).ok_or_else(|| UnknownCheck(name.to_owned()))
    }
}

impl CheckName {
    /// All of them, in the order in which they are made.
    pub const ALL: [Self; 9] =
        [Self::Prefill, Self::Last, Self::Chunked, Self::Decode, Self::Padded, Self::MaskedRow, Self::Batch, Self::Greedy, Self::Cache];

    /// As in `verdict.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Last => "last",
            Self::Chunked => "chunked",
            Self::Decode => "decode",
            Self::Padded => "padded",
            Self::MaskedRow => "masked_row",
            Self::Batch => "batch",
            Self::Greedy => "greedy",
            Self::Cache => "cache",
        }
    }

    /// Why it did not apply, where it did not.
    pub(crate) fn needs(self) -> &'static str {
        match self {
            Self::Prefill => "no position with logits was given by the candidate",
            Self::Last => "needs logits at the last token of a row",
            Self::Chunked => "needs a sequence of at least three tokens on one side of a switch of rotations",
            Self::Decode => "needs a sequence of at least two tokens with logits in its second half",
            Self::Padded => "needs a batch, or a sequence of at least two tokens",
            Self::MaskedRow | Self::Batch => "needs a row without padding that has logits",
            Self::Greedy => "needs a set that ends in at least eight tokens of the source's own choice",
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
    /// See [`Metrics::decided`], at the tolerance's margin.
    pub decided: usize,
    /// Those of `decided` where the candidate's largest logit is at another entry.
    pub decided_flips: usize,
    /// See [`Metrics::nonfinite`].
    pub nonfinite: usize,
    /// What it was held against.
    pub tolerance: Tolerance,
    /// Where the worst figure is.
    pub worst: Option<Worst>,
    /// What rounding alone makes of the same figures at the same positions; `null` where that was not measured.
    #[serde(default)]
    pub floor: Option<Floor>,
    /// The largest of `max_rel`, `mean_rel` and the roots of `kl_mean` and `kl_max` over that of `floor`.
    #[serde(default)]
    pub error_over_floor: Option<f64>,
    /// How well both sides foretell the tokens of the prompts; `null` where no token follows.
    #[serde(default)]
    pub perplexity: Option<Perplexity>,
    /// Of `greedy` alone: where the candidate first chooses otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub greedy: Option<Greedy>,
    /// Positions by divergence; `null` for `cache`.
    #[serde(default)]
    pub kl_histogram: Option<KlHistogram>,
    /// Positions whose largest logit is at another entry, those of the largest margins, 20 at most.
    #[serde(default)]
    pub flips: Vec<Flip>,
    /// By column.
    #[serde(default)]
    pub by_position: ByPosition,
}

/// How far a candidate generates what the source does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Greedy {
    /// Choices that were compared.
    pub tokens: usize,
    /// Those that were alike before its first other choice; all of `tokens` where there is none.
    pub alike: usize,
    /// Its first other choice.
    pub first_divergence: Option<Flip>,
    /// Whether that choice is one that rounding may make: its margin is within the tolerance's.
    pub tie: bool,
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
        let (decided, decided_flips) = metrics.decided(tolerance.margin);
        let flips: Vec<Flip> = metrics.flips.list().iter().map(|flip| Flip { margin: short(flip.margin), ..flip.clone() }).collect();
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
            decided,
            decided_flips,
            nonfinite: metrics.nonfinite,
            tolerance: tolerance.clone(),
            worst: metrics.worst.map(|place| Worst { set: worst_set, place }),
            floor: metrics.floor,
            error_over_floor: metrics.floor.map(|floor| floor.ratio(metrics)),
            perplexity: metrics.surprise.perplexity(),
            greedy: (name == CheckName::Greedy).then(|| Greedy::of(metrics, &flips, tolerance.margin)),
            kl_histogram: metrics.kl_max.map(|_| metrics.histogram.clone()),
            flips,
            by_position: metrics.columns.by_position(),
        }
    }
}

impl Greedy {
    fn of(metrics: &Metrics, flips: &[Flip], margin: f64) -> Self {
        let first = flips.iter().min_by_key(|flip| flip.place.column).cloned();
        let columns = &metrics.columns.by_position().column;
        let tokens = columns.len();
        let alike = first.as_ref().map_or(tokens, |first| columns.iter().filter(|&&column| column < first.place.column).count());
        Self { tokens, alike, tie: first.as_ref().is_some_and(|first| first.margin <= margin), first_divergence: first }
    }
}

/// A check that did not apply or could not be run, on all of the prompt sets or on those that `reason` names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Which check.
    pub name: CheckName,
    /// Against whose logits it would have been.
    pub oracle: OracleKind,
    /// Why not.
    pub reason: String,
}
