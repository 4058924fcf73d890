//! The checks: the same prompts fed in the ways that a served model is used.

use plansmith_tensor::Session;

use crate::cache::CapturedCache;
use crate::metrics::Metrics;
use crate::tolerance::Tolerance;
use crate::trial::{Expected, Refused, Trial};
use crate::verdict::{Check, CheckName, OracleKind, Skipped};
use crate::{Error, Golden, GoldenSet, PromptSet};

/// Tokens that the decode check feeds one by one, at most.
const DECODE_STEPS: usize = 32;
/// Tokens that the padded check feeds one by one after a padded prefill.
const PADDED_STEPS: usize = 4;

/// What a running check tells whoever waits for it.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The check that begins.
    pub check: CheckName,
    /// On which prompt set.
    pub set: &'a str,
    /// Steps done before it and in all, over every check and set.
    pub done: usize,
    /// See `done`.
    pub total: usize,
}

/// What was checked, and what could not be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Checked {
    /// One entry a check that compared something.
    pub checks: Vec<Check>,
    /// Checks that did not apply to some or any of the prompt sets, with the reason.
    pub skipped: Vec<Skipped>,
}

/// Compares `candidate` with the stored logits of `golden`, each set three ways:
///
/// - `prefill`: the whole batch in one step;
/// - `decode`: a first part in one step, then the second half, 32 tokens at most, one by one through the cache (the first part is longer
///   where a row's first token comes later);
/// - `padded`: each row alone, without its padding, against the row in the batch; and where a set has no padding, its first row beside a
///   left-padded beginning of itself, prefilled and then decoded, against the same logits (a causal model owes both the same).
///
/// With `cache` also `cache`: every key and value after a cached decode against those of the source.
///
/// Columns whose mask is 0 are not compared. A set of more rows than the candidate takes is left out, and named in [`Checked::skipped`]. A candidate that gives only the last position's logits is compared at those. One step's logits
/// are in memory at a time.
///
/// # Errors
/// The session fails or gives other shapes, or the golden file can no longer be read.
pub fn verify_against_golden(
    candidate: &mut dyn Session,
    golden: &Golden,
    cache: Option<&CapturedCache>,
    oracle: OracleKind,
    tolerance: &Tolerance,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Checked, Error> {
    let total = golden.sets().len() * 3 + usize::from(cache.is_some());
    let mut done = 0;
    let mut report = |check: CheckName, set: &str| {
        progress(Progress { check, set, done, total });
        done += 1;
    };
    let mut checked = Checked::default();
    for (check, trials) in [
        (CheckName::Prefill, prefill as fn(&GoldenSet) -> Vec<Trial>),
        (CheckName::Decode, |set| decode(set).into_iter().collect()),
        (CheckName::Padded, padded),
    ] {
        let mut sum = Sum::default();
        for set in golden.sets() {
            let name = set.prompt().name();
            report(check, name);
            for trial in trials(set) {
                sum.add(trial.run(candidate, set)?.map(|meter| meter.finish(tolerance.margin)), name);
            }
        }
        checked.push(check, oracle, sum, tolerance);
    }
    if let Some(cache) = cache {
        let name = cache.prompt().name();
        report(CheckName::Cache, name);
        let mut sum = Sum::default();
        sum.add(cache.compare(candidate)?, name);
        checked.push(CheckName::Cache, oracle, sum, tolerance);
    }
    Ok(checked)
}

impl Checked {
    fn push(&mut self, check: CheckName, oracle: OracleKind, sum: Sum, tolerance: &Tolerance) {
        let skipped = |reason: String| Skipped { name: check, oracle, reason };
        if !sum.refused.is_empty() {
            let sets: Vec<String> = sum.refused.iter().map(|(set, reason)| format!("to set `{set}` ({reason})")).collect();
            self.skipped.push(skipped(sets.join(", ")));
        } else if sum.worst.is_none() {
            self.skipped.push(skipped(check.needs().to_owned()));
        }
        self.checks.extend(sum.worst.map(|(metrics, set)| Check::new(check, oracle, &metrics, set, tolerance)));
    }

    /// Adds the checks against another oracle.
    pub fn extend(&mut self, other: Self) {
        self.checks.extend(other.checks);
        self.skipped.extend(other.skipped);
    }
}

/// One check over its prompt sets.
#[derive(Default)]
struct Sum {
    /// The worst of each figure, and the set with the worst of all; `None` until something was compared.
    worst: Option<(Metrics, String)>,
    /// Sets with more rows than the session takes, and what it said.
    refused: Vec<(String, String)>,
}

impl Sum {
    /// Adds a comparison. One that compared nothing counts as not made.
    fn add(&mut self, comparison: Result<Metrics, Refused>, set: &str) {
        match (comparison, &mut self.worst) {
            (Err(Refused(reason)), _) => {
                if !self.refused.iter().any(|(refused, _)| refused == set) {
                    self.refused.push((set.to_owned(), reason));
                }
            }
            (Ok(metrics), _) if metrics.positions == 0 => {}
            (Ok(metrics), None) => self.worst = Some((metrics, set.to_owned())),
            (Ok(metrics), Some((so_far, worst_set))) => {
                if so_far.merge(&metrics) {
                    set.clone_into(worst_set);
                }
            }
        }
    }
}

/// Every attended column against itself.
fn identity(golden: &GoldenSet) -> Vec<Option<Expected>> {
    let prompt = golden.prompt();
    let indices = golden.index_of_columns();
    let cell = |row, column: usize| indices[column].filter(|_| prompt.attends(row, column)).map(|index| Expected { row, index });
    (0..prompt.batch()).flat_map(|row| (0..prompt.sequence()).map(move |column| (row, column))).map(|(r, c)| cell(r, c)).collect()
}

fn prefill(golden: &GoldenSet) -> Vec<Trial> {
    let prompt = golden.prompt().clone();
    vec![Trial { check: CheckName::Prefill, first: prompt.sequence(), expected: identity(golden), prompt }]
}

/// Compares the columns after the first part only: those that came through the cache.
fn decode(golden: &GoldenSet) -> Option<Trial> {
    let prompt = golden.prompt().clone();
    let first = decode_split(&prompt)?;
    let mut expected = identity(golden);
    for row in expected.chunks_exact_mut(prompt.sequence()) {
        row[..first].fill(None);
    }
    Some(Trial { check: CheckName::Decode, first, expected, prompt })
}

/// Columns of the first part: all but the second half or the last 32, but at least one real token of each row. `None` where nothing is left
/// to decode.
pub(crate) fn decode_split(prompt: &PromptSet) -> Option<usize> {
    let begins = |row: usize| (0..prompt.sequence()).find(|&column| prompt.attends(row, column));
    let begun = (0..prompt.batch()).filter_map(begins).max().unwrap_or(0) + 1;
    prompt.first_step((prompt.sequence() - DECODE_STEPS.min(prompt.sequence().div_ceil(2))).max(begun))
}

fn padded(golden: &GoldenSet) -> Vec<Trial> {
    let prompt = golden.prompt();
    let mut trials = Vec::new();
    if prompt.batch() > 1 || prompt.is_padded() {
        trials.extend((0..prompt.batch()).filter_map(|row| row_alone(golden, row)));
    }
    if !prompt.is_padded() {
        trials.extend(beside_its_beginning(golden));
    }
    trials
}

/// One row without the padding around it. Holes inside stay: to a window they are distance.
fn row_alone(golden: &GoldenSet, row: usize) -> Option<Trial> {
    let prompt = golden.prompt();
    let mut attended = (0..prompt.sequence()).filter(|&column| prompt.attends(row, column));
    let from = attended.next()?;
    let columns = from..attended.next_back().unwrap_or(from) + 1;
    let cut = |values: &[i64]| values[row * prompt.sequence()..][columns.clone()].to_vec();
    let expected = identity(golden)[row * prompt.sequence()..][columns.clone()].to_vec();
    let mask = Some(cut(prompt.attention_mask()));
    let alone = PromptSet::new(prompt.name(), 1, cut(prompt.input_ids()), mask, Some(cut(prompt.position_ids())), None).ok()?;
    prompt.shares_side(&alone).then(|| Trial { check: CheckName::Padded, first: alone.sequence(), expected, prompt: alone })
}

/// The first row, and below it its beginning with padding on the left so that both end together.
fn beside_its_beginning(golden: &GoldenSet) -> Option<Trial> {
    let prompt = golden.prompt();
    let sequence = prompt.sequence();
    let indices = golden.index_of_columns();
    // The beginning ends at a stored column: there a session that gives only the last position can be compared.
    let length = (1..sequence).filter(|length| indices[length - 1].is_some()).min_by_key(|length| length.abs_diff(sequence.div_ceil(2)))?;
    let pads = sequence - length;
    let beside = |values: &[i64], pad: i64| -> Vec<i64> {
        let padding = std::iter::repeat_n(pad, pads);
        values[..sequence].iter().copied().chain(padding).chain(values[..length].iter().copied()).collect()
    };
    let mask = beside(&vec![1; sequence], 0);
    let both =
        PromptSet::new(prompt.name(), 2, beside(prompt.input_ids(), 0), Some(mask), Some(beside(prompt.position_ids(), 1)), None).ok()?;
    let both = both.switching_at(prompt.switch_length());
    let cell = |column: usize| indices[column].map(|index| Expected { row: 0, index });
    let expected = (0..sequence).map(cell).chain((0..pads).map(|_| None)).chain((0..length).map(cell)).collect();
    let least = sequence - PADDED_STEPS.min(length - 1);
    let first = both.first_step(least).unwrap_or(sequence);
    Some(Trial { check: CheckName::Padded, first, expected, prompt: both })
}

#[cfg(test)]
mod tests;
