//! The types of `verdict.json`, and what follows from them.

mod candidate;
mod check;
mod facts;
mod json;

use serde::{Deserialize, Serialize};

pub use candidate::{CandidateFacts, CandidateVerdict, FirstDivergence, PlaceError};
pub use check::{Check, CheckName, CheckSet, Greedy, OracleKind, Skipped, UnknownCheck, Worst};
pub use facts::{GoldenFacts, LayerPeaks, PromptFacts, SourceFacts};

use crate::Error;
use crate::checks::Checked;
use candidate::chain;

/// Version of the format that [`Verdict`] is.
pub const SCHEMA_VERSION: u32 = 1;

/// Whose logits a run was made against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Oracle {
    /// A golden file.
    Golden,
    /// The built-in reference.
    Reference,
    /// Both, and they were compared with each other.
    Both,
}

/// What a comparison, or a whole run, came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All that was executed agreed.
    Agree,
    /// Something executed and differs.
    Disagree,
    /// This host cannot execute it. Never the outcome of a run.
    NotExecuted,
    /// It could not be executed or compared, though it should have been.
    Error,
}

impl Outcome {
    /// As in `verdict.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Agree => "agree",
            Self::Disagree => "disagree",
            Self::NotExecuted => "not_executed",
            Self::Error => "error",
        }
    }
}

/// The built-in reference compared with the golden.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OracleAgreement {
    /// `agree`, `disagree` or `error`.
    pub verdict: Outcome,
    /// Why, unless they agree.
    pub reason: Option<String>,
    /// The checks made.
    pub checks: Vec<Check>,
}

impl OracleAgreement {
    /// What follows from comparing the reference, as a candidate, with the golden.
    pub fn of(checked: Result<Checked, Error>) -> Self {
        let checked = match checked {
            Ok(checked) => checked,
            Err(error) => {
                let reason = format!("the reference could not be compared with the golden: {}", chain(&error));
                return Self { verdict: Outcome::Error, reason: Some(reason), checks: Vec::new() };
            }
        };
        if let Some(failed) = checked.failed_to_run.first() {
            let reason = format!("the reference could not be compared with the golden: {} failed {}", failed.name, failed.reason);
            return Self { verdict: Outcome::Error, reason: Some(reason), checks: checked.checks };
        }
        if checked.checks.is_empty() {
            let reason = "the reference could not be compared with the golden: no check applied".to_owned();
            return Self { verdict: Outcome::Error, reason: Some(reason), checks: Vec::new() };
        }
        let agree = checked.checks.iter().all(|check| check.passed);
        let reason = "the oracles disagree: the built-in reference and the golden logits differ, so config.json was misread or the golden is \
                      of other weights; no candidate can be right by both";
        Self {
            verdict: if agree { Outcome::Agree } else { Outcome::Disagree },
            reason: (!agree).then(|| reason.to_owned()),
            checks: checked.checks,
        }
    }
}

/// `verdict.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `agree`, `disagree` or `error`.
    pub verdict: Outcome,
    /// Why, unless it agrees.
    pub reason: Option<String>,
    /// Whose logits counted.
    pub oracle: Oracle,
    /// What the candidates were compared with.
    pub source: SourceFacts,
    /// The golden file, if there was one.
    pub golden: Option<GoldenFacts>,
    /// The prompts given to the reference, if it was an oracle.
    pub prompts: Option<PromptFacts>,
    /// The two oracles against each other, if there were two.
    pub oracles: Option<OracleAgreement>,
    /// How large the source's activations get, by layer: what decides whether 16 bits hold them. `None` where the reference did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranges: Option<Vec<LayerPeaks>>,
    /// How many candidates were executed. With 0, `agree` says nothing about any of them.
    pub executed: usize,
    /// How many this host could not execute.
    pub not_executed: usize,
    /// The artifacts.
    pub candidates: Vec<CandidateVerdict>,
}

/// What a run was made against.
#[derive(Debug, Clone, PartialEq)]
pub enum Evidence {
    /// A golden file alone.
    Golden(GoldenFacts),
    /// The built-in reference alone.
    Reference(PromptFacts),
    /// Both, compared with each other.
    Both(GoldenFacts, PromptFacts, OracleAgreement),
}

impl Verdict {
    /// Sums the candidates up. One that disagrees outweighs one that failed; so do oracles that disagree. No candidate at all is an error.
    pub fn conclude(source: SourceFacts, evidence: Evidence, candidates: Vec<CandidateVerdict>) -> Self {
        let (oracle, golden, prompts, oracles) = match evidence {
            Evidence::Golden(golden) => (Oracle::Golden, Some(golden), None, None),
            Evidence::Reference(prompts) => (Oracle::Reference, None, Some(prompts), None),
            Evidence::Both(golden, prompts, oracles) => (Oracle::Both, Some(golden), Some(prompts), Some(oracles)),
        };
        let count = |outcome: Outcome| candidates.iter().filter(|candidate| candidate.verdict == outcome).count();
        let of_oracles = |outcome: Outcome| oracles.as_ref().filter(|oracles| oracles.verdict == outcome);
        let (verdict, reason) = if let Some(oracles) = of_oracles(Outcome::Disagree) {
            (Outcome::Disagree, oracles.reason.clone())
        } else if count(Outcome::Disagree) > 0 {
            (Outcome::Disagree, Some(format!("{} of {} candidates disagree", count(Outcome::Disagree), candidates.len())))
        } else if let Some(oracles) = of_oracles(Outcome::Error) {
            (Outcome::Error, oracles.reason.clone())
        } else if count(Outcome::Error) > 0 {
            (Outcome::Error, Some(format!("{} of {} candidates could not be checked", count(Outcome::Error), candidates.len())))
        } else if candidates.is_empty() {
            (Outcome::Error, Some("there is no candidate".to_owned()))
        } else {
            (Outcome::Agree, None)
        };
        let not_executed = count(Outcome::NotExecuted);
        let executed = count(Outcome::Agree) + count(Outcome::Disagree);
        let schema_version = SCHEMA_VERSION;
        Self { schema_version, verdict, reason, oracle, source, golden, prompts, oracles, ranges: None, executed, not_executed, candidates }
    }

    /// The same with how large the source's activations get.
    #[must_use]
    pub fn with_ranges(self, ranges: Vec<LayerPeaks>) -> Self {
        Self { ranges: Some(ranges), ..self }
    }

    /// The process's exit code: 0 agree, 1 disagree, 2 error. With `require_executed`, a candidate that was not executed makes 0 a 1.
    pub fn exit_code(&self, require_executed: bool) -> u8 {
        match self.verdict {
            Outcome::Disagree => 1,
            Outcome::Agree if require_executed && self.not_executed > 0 => 1,
            Outcome::Agree => 0,
            Outcome::Error | Outcome::NotExecuted => 2,
        }
    }

    /// `verdict.json` as it is written: indented, arrays of plain values on one line, one trailing newline.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(json::joined(&serde_json::to_string_pretty(self)?))
    }
}

#[cfg(test)]
pub(crate) mod tests;
