//! Metrics, tolerances, checks and verdicts over sessions.
//!
//! This crate knows tensors and [`plansmith_tensor::Session`]s, no model family, no file format but golden files, and no runtime. A source (a
//! golden file, or the built-in reference run once by [`Capture::record`]) is a [`Golden`]; [`verify_against_golden`] feeds its prompts to a
//! candidate in the ways that a served model is used, [`CandidateVerdict`] says what came of it, and [`Verdict`] sums up a run.

mod bisect;
mod cache;
mod capture;
mod checks;
mod compare;
mod error;
mod golden;
mod junit;
mod label;
mod metrics;
mod noise;
mod number;
mod precision;
mod prompts;
mod report;
mod run;
mod summary;
mod tolerance;
mod trial;
mod verdict;

pub use bisect::{
    BisectRun, BisectStep, CacheSeen, Cause, Difference, RunKind, Seen, Stats, Token, bisect_runs, block_name, explain, first_divergence,
};
pub use cache::CapturedCache;
pub use capture::{Capture, Keep};
pub use checks::{Checked, Progress, verify_against_golden};
pub use compare::compare;
pub use error::Error;
pub use golden::{Golden, GoldenSet, REFERENCE_PRODUCER};
pub use label::dtype_label;
pub use metrics::{ByPosition, Flip, KlHistogram, Meter, Metrics, Perplexity, Place};
pub use noise::{Floor, Noise};
pub use precision::Precision;
pub use prompts::{PromptSet, Prompts};
pub use run::{Candidate, Oracles, verify_against_session};
pub use tolerance::{Basis, Limits, Standard, Tolerance};
pub use verdict::{
    CandidateFacts, CandidateVerdict, Check, CheckName, CheckSet, Evidence, FirstDivergence, GoldenFacts, Greedy, LayerPeaks, Oracle,
    OracleAgreement, OracleKind, Outcome, PlaceError, PromptFacts, SCHEMA_VERSION, Skipped, SourceFacts, UnknownCheck, Verdict, Worst,
};
