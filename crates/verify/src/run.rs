//! One candidate against everything that speaks for the source.

use plansmith_tensor::Session;

use crate::checks::{Checked, Progress, verify_against_golden};
use crate::tolerance::Standard;
use crate::verdict::{CandidateFacts, CandidateVerdict, CheckName, OracleAgreement, OracleKind};
use crate::{Capture, Error, Golden, Prompts};

/// A session with what is known of the file it runs.
pub struct Candidate<'a> {
    /// Executes it.
    pub session: &'a mut dyn Session,
    /// Goes into the verdict.
    pub facts: CandidateFacts,
}

/// Who speaks for the source in a run.
#[derive(Debug, Clone, Copy)]
pub enum Oracles<'a> {
    /// A golden file alone.
    Golden(&'a Golden),
    /// The built-in reference, captured once.
    Reference(&'a Capture),
    /// Both.
    Both(&'a Golden, &'a Capture),
}

impl Oracles<'_> {
    /// Checks one candidate against every oracle. A session that fails makes the verdict `error`, with the cause as its reason.
    pub fn judge(&self, candidate: Candidate<'_>, standard: &Standard<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> CandidateVerdict {
        let checked = self.check(candidate.session, standard, progress);
        CandidateVerdict::of(candidate.facts, checked)
    }

    fn check(&self, session: &mut dyn Session, standard: &Standard<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Checked, Error> {
        let (golden, capture) = match self {
            Self::Golden(golden) => (Some(golden), None),
            Self::Reference(capture) => (None, Some(capture)),
            Self::Both(golden, capture) => (Some(golden), Some(capture)),
        };
        let mut checked = Checked::default();
        if let Some(golden) = golden {
            checked.extend(verify_against_golden(session, golden, None, OracleKind::Golden, standard, progress)?);
        }
        if let Some(Capture { golden, cache }) = capture {
            checked.extend(verify_against_golden(session, golden, Some(cache), OracleKind::Reference, standard, progress)?);
        }
        if capture.is_none() && !standard.limits.without.contains(CheckName::Cache) {
            checked.needs(CheckName::Cache, OracleKind::Golden);
        }
        Ok(checked)
    }
}

impl OracleAgreement {
    /// Compares the built-in reference with a golden at fp32 limits: each is right on its own terms or the config was misread.
    pub fn between(reference: &mut dyn Session, golden: &Golden, standard: &Standard<'_>, progress: &mut dyn FnMut(Progress<'_>)) -> Self {
        Self::of(verify_against_golden(reference, golden, None, OracleKind::Golden, standard, progress))
    }
}

/// Compares `candidate` with `source`, both executed here: [`Capture::of_reference`], then all checks, the cache included. For several
/// candidates make the capture once and use [`Oracles::judge`].
///
/// # Errors
/// Those of [`Capture::record`] and [`verify_against_golden`].
pub fn verify_against_session(
    source: &mut dyn Session,
    candidate: &mut dyn Session,
    prompts: &Prompts,
    vocab: usize,
    standard: &Standard<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Checked, Error> {
    let capture = Capture::of_reference(source, prompts, vocab)?;
    Oracles::Reference(&capture).check(candidate, standard, progress)
}
