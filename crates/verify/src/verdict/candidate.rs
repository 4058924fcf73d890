//! One artifact's verdict.

use std::error::Error as _;

use plansmith_files::Digest;
use plansmith_tensor::DType;
use serde::{Deserialize, Serialize};

use super::{Check, Outcome, Skipped};
use crate::checks::Checked;
use crate::{Error, Stats, label};

/// What is known of a candidate before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateFacts {
    /// File, as the user named it.
    pub path: String,
    /// Of the graph or plan.
    pub sha256: Digest,
    /// `rten`, `ort`, `tensorrt`.
    pub runtime: String,
    /// How its weights are stored.
    #[serde(with = "label")]
    pub storage: DType,
    /// What it computes in.
    #[serde(with = "label")]
    pub compute: DType,
}

/// The first place inside a graph where a candidate leaves the source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FirstDivergence {
    /// Layer, counted from 0; `null` before the first and after the last.
    pub layer: Option<usize>,
    /// `embedding`, `self_attn`, `mlp`, `residual` (what the layer's parts are joined to), `final_norm` or `head`.
    pub block: String,
    /// The first way of running that differs, and on which prompt set; `null` where it was not found by running the candidate.
    pub run: Option<String>,
    /// The candidate's value that was compared, by its name in the graph.
    pub value: Option<String>,
    /// The source's values there.
    pub source: Option<Stats>,
    /// The candidate's.
    pub candidate: Option<Stats>,
    /// Largest absolute difference there over the standard deviation of the source's values; `null` where it is not finite.
    pub max_rel: Option<f64>,
    /// What would make such a difference, the most telling first.
    #[serde(default)]
    pub cause_hints: Vec<String>,
    /// What counts as different in `trace`.
    pub limit: Option<f64>,
    /// Every place that was compared in that run, in the order of computation.
    #[serde(default)]
    pub trace: Vec<PlaceError>,
}

/// How far one place inside a graph is from the source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlaceError {
    /// As in [`FirstDivergence`].
    pub layer: Option<usize>,
    /// As in [`FirstDivergence`].
    pub block: String,
    /// The largest of the tokens' errors: length of the difference over length of the source's vector. `null` where the candidate holds values
    /// that are not finite.
    pub error: Option<f64>,
}

impl FirstDivergence {
    /// A place, and nothing known of the values there.
    pub fn at(layer: Option<usize>, block: &str) -> Self {
        let (run, value, source, candidate, max_rel, limit) = (None, None, None, None, None, None);
        let (cause_hints, trace) = (Vec::new(), Vec::new());
        Self { layer, block: block.to_owned(), run, value, source, candidate, max_rel, cause_hints, limit, trace }
    }

    /// Two or more lines for a terminal, indented by two.
    pub(crate) fn paragraph(&self) -> String {
        let layer = self.layer.map(|layer| format!("layer {layer}, ")).unwrap_or_default();
        let run = self.run.as_ref().map(|run| format!(" in {run}")).unwrap_or_default();
        let mut text = format!("  first differs at {layer}{}{run}", self.block);
        if let Some(max_rel) = self.max_rel {
            text += &format!(": max_rel {max_rel:.1e}");
        }
        for (side, stats) in [("source", &self.source), ("candidate", &self.candidate)] {
            if let Some(Stats { mean, std, max, nonfinite }) = stats {
                text += &format!("\n    {side:<9} mean {mean:10.3e}  std {std:9.3e}  max {max:9.3e}  NaN or infinite {nonfinite}");
            }
        }
        for hint in &self.cause_hints {
            text += &format!("\n    {hint}");
        }
        text
    }
}

/// One artifact's verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CandidateVerdict {
    /// What it is.
    #[serde(flatten)]
    pub facts: CandidateFacts,
    /// What the checks came to.
    pub verdict: Outcome,
    /// Why, unless it agrees.
    pub reason: Option<String>,
    /// The checks made.
    pub checks: Vec<Check>,
    /// The checks that did not apply.
    pub skipped: Vec<Skipped>,
    /// The checks that the runtime failed, with its words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_to_run: Vec<Skipped>,
    /// Where it first differs inside; `null` where that was not looked for or not found.
    pub first_divergence: Option<FirstDivergence>,
}

impl CandidateVerdict {
    /// The verdict that follows from `checked`: it agrees where something was compared, all of it passed, and nothing failed to run.
    pub fn checked(facts: CandidateFacts, checked: Checked) -> Self {
        let Checked { checks, skipped, failed_to_run } = checked;
        let failed: Vec<_> = checks.iter().filter(|check| !check.passed).map(|check| check.name.name()).collect();
        let unrun: Vec<_> = failed_to_run.iter().map(|check| format!("{} could not be run {}", check.name, check.reason)).collect();
        let mut reasons = Vec::new();
        if !failed.is_empty() {
            reasons.push(format!("outside the tolerance: {}", failed.join(", ")));
        }
        if checks.is_empty() && unrun.is_empty() {
            reasons.push("nothing was compared: no check applied to these prompts".to_owned());
        }
        reasons.extend(unrun);
        let verdict = match (failed.is_empty(), reasons.is_empty()) {
            (false, _) => Outcome::Disagree,
            (true, false) => Outcome::Error,
            (true, true) => Outcome::Agree,
        };
        let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        Self { facts, verdict, reason, checks, skipped, failed_to_run, first_divergence: None }
    }

    /// An artifact that this host cannot execute, with what was checked instead in `reason`.
    pub fn not_executed(facts: CandidateFacts, reason: String) -> Self {
        let (checks, skipped, failed_to_run) = (Vec::new(), Vec::new(), Vec::new());
        Self { facts, verdict: Outcome::NotExecuted, reason: Some(reason), checks, skipped, failed_to_run, first_divergence: None }
    }

    /// An artifact that should have run and could not.
    pub fn failed(facts: CandidateFacts, reason: String) -> Self {
        Self { verdict: Outcome::Error, ..Self::not_executed(facts, reason) }
    }

    /// The verdict of a run of checks that may itself have failed.
    pub fn of(facts: CandidateFacts, checked: Result<Checked, Error>) -> Self {
        match checked {
            Ok(checked) => Self::checked(facts, checked),
            Err(error) => Self::failed(facts, chain(&error)),
        }
    }
}

/// An error and its causes on one line.
pub(super) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
