//! The checks: the same prompts fed in the ways that a served model is used.

mod batch;
mod greedy;
mod padding;
mod sets;

use plansmith_tensor::{Session, SessionError};

use crate::cache::CapturedCache;
use crate::metrics::Metrics;
use crate::tolerance::Standard;
use crate::trial::{Expected, Refused, Trial, at_once};
use crate::verdict::{Check, CheckName, OracleKind, Skipped};
use crate::{Error, Golden, GoldenSet, PromptSet};

pub(crate) use greedy::{greedy_from, largest};

/// Tokens that the decode check feeds one by one, at most.
const DECODE_STEPS: usize = 32;

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
    /// Checks that the runtime failed on some or all of the prompt sets, with its words.
    pub failed_to_run: Vec<Skipped>,
}

/// Compares `candidate` with the stored logits of `golden`:
///
/// - `prefill`: the whole batch in one step, or where its logits would be too many in a few;
/// - `last`: of that, each row's last token;
/// - `chunked`: three uneven steps;
/// - `decode`: a first part in one step, then the second half, 32 tokens at most, one by one through the cache (the first part is longer
///   where a row's first token comes later);
/// - `padded`: each row alone, without its padding, against the row in the batch; and where a set has no padding, its first row beside a
///   beginning of itself that is padded on the left and one that is padded on the right, prefilled and then decoded, against the same logits (a
///   causal model owes all of them the same);
/// - `masked_row`: a row beside one whose mask is 0 throughout, which must be finite and must not disturb it;
/// - `batch`: a row alone against the same row twice in a batch, both of the candidate;
/// - `greedy`: where a set ends in what the source itself generates (see [`crate::Capture::record`]), that part token by token.
///
/// With `cache` also `cache`: every key and value after a cached decode against those of the source.
///
/// Columns whose mask is 0 are not compared. What a candidate cannot take (more rows, left padding) is left out, and named in
/// [`Checked::skipped`]. A candidate that gives only the last position's logits is compared at those. One step's logits are in memory at a time,
/// those of `batch` apart.
///
/// A step that the runtime fails ends its trial only, and is named in [`Checked::failed_to_run`]: what the others give is still wanted.
///
/// # Errors
/// The session gives other shapes, or the golden file can no longer be read.
pub fn verify_against_golden(
    candidate: &mut dyn Session,
    golden: &Golden,
    cache: Option<&CapturedCache>,
    oracle: OracleKind,
    standard: &Standard<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Checked, Error> {
    let without = standard.limits.without;
    let mut checked = Checked::default();
    let cache = cache.filter(|_| !without.contains(CheckName::Cache));
    let (left_out, plan): (Vec<_>, Vec<_>) = sets::plan(golden)?.into_iter().partition(|(check, _)| without.contains(*check));
    let total = plan.iter().map(|(_, sets)| sets.len()).sum::<usize>() + usize::from(cache.is_some());
    let noise = standard.noise(oracle);
    let mut done = 0;
    let mut report = |check: CheckName, set: &str| {
        progress(Progress { check, set, done, total });
        done += 1;
    };
    for (check, sets) in plan {
        let (mut sum, mut last) = (Sum::default(), Sum::default());
        for set in sets {
            let name = set.prompt().name();
            report(check, name);
            if check == CheckName::Batch {
                match runs(batch::against_alone(candidate, set, noise))? {
                    Ok(comparison) => sum.add(comparison.map(|meter| meter.finish()), name),
                    Err(why) => sum.fail(why, name),
                }
                continue;
            }
            for trial in trials(check, set)? {
                match runs(trial.run(candidate, set, noise))? {
                    Ok(Ok(reading)) => {
                        sum.add(Ok(reading.all.finish()), name);
                        last.add(Ok(reading.last.finish()), name);
                    }
                    Ok(Err(refused)) => sum.add(Err(refused), name),
                    Err(why) => sum.fail(why, name),
                }
            }
        }
        checked.push(check, oracle, sum, standard);
        if check == CheckName::Prefill && without.contains(CheckName::Last) {
            checked.leave_out(CheckName::Last, oracle);
        } else if check == CheckName::Prefill {
            checked.push(CheckName::Last, oracle, last, standard);
        }
    }
    if let Some(cache) = cache {
        let name = cache.prompt().name();
        report(CheckName::Cache, name);
        let mut sum = Sum::default();
        match runs(cache.compare(candidate, noise))? {
            Ok(comparison) => sum.add(comparison, name),
            Err(why) => sum.fail(why, name),
        }
        checked.push(CheckName::Cache, oracle, sum, standard);
    }
    let cache = without.contains(CheckName::Cache).then_some(CheckName::Cache);
    left_out.into_iter().map(|(check, _)| check).chain(cache).for_each(|check| checked.leave_out(check, oracle));
    Ok(checked)
}

/// Takes a step that the runtime failed out of what ends everything.
fn runs<T>(result: Result<T, Error>) -> Result<Result<T, String>, Error> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(Error::Step { source: source @ SessionError::Runtime { .. }, .. }) => {
            // On one line.
            Ok(Err(source.to_string().split_whitespace().collect::<Vec<_>>().join(" ")))
        }
        Err(error) => Err(error),
    }
}

impl Checked {
    fn leave_out(&mut self, check: CheckName, oracle: OracleKind) {
        self.skipped.push(Skipped { name: check, oracle, reason: format!("left out at the user's word (--without {check})") });
    }

    /// Says that `check` does not apply, for want of what it needs.
    pub(crate) fn needs(&mut self, check: CheckName, oracle: OracleKind) {
        self.skipped.push(Skipped { name: check, oracle, reason: check.needs().to_owned() });
    }

    fn push(&mut self, check: CheckName, oracle: OracleKind, sum: Sum, standard: &Standard<'_>) {
        let skipped = |reason: String| Skipped { name: check, oracle, reason };
        if !sum.failed.is_empty() {
            let sets: Vec<String> = sum.failed.iter().map(|(set, why)| format!("on set `{set}` ({why})")).collect();
            self.failed_to_run.push(skipped(sets.join(", ")));
        }
        if !sum.refused.is_empty() {
            let sets: Vec<String> = sum.refused.iter().map(|(set, reason)| format!("to set `{set}` ({reason})")).collect();
            self.skipped.push(skipped(sets.join(", ")));
        } else if sum.worst.is_none() && sum.failed.is_empty() {
            self.skipped.push(skipped(check.needs().to_owned()));
        }
        self.checks.extend(sum.worst.map(|(metrics, set)| {
            let tolerance = standard.tolerance(oracle, &metrics);
            Check::new(check, oracle, &metrics, set, &tolerance)
        }));
    }

    /// Adds the checks against another oracle.
    pub fn extend(&mut self, other: Self) {
        self.checks.extend(other.checks);
        self.skipped.extend(other.skipped);
        self.failed_to_run.extend(other.failed_to_run);
    }
}

/// One check over its prompt sets.
#[derive(Default)]
struct Sum {
    /// The worst of each figure, and the set with the worst of all; `None` until something was compared.
    worst: Option<(Metrics, String)>,
    /// Sets that the session does not take, and what it said.
    refused: Vec<(String, String)>,
    /// Sets on which the runtime failed, and what it said.
    failed: Vec<(String, String)>,
}

impl Sum {
    fn fail(&mut self, why: String, set: &str) {
        if !self.failed.iter().any(|(failed, _)| failed == set) {
            self.failed.push((set.to_owned(), why));
        }
    }

    /// Adds a comparison. One that compared nothing counts as not made.
    fn add(&mut self, comparison: Result<Metrics, Refused>, set: &str) {
        match (comparison, &mut self.worst) {
            (Err(Refused(reason)), _) => {
                if !self.refused.iter().any(|(refused, _)| refused == set) {
                    self.refused.push((set.to_owned(), reason));
                }
            }
            (Ok(metrics), _) if metrics.positions == 0 => {}
            (Ok(mut metrics), worst) => {
                metrics.flips.of_set(set);
                match worst {
                    None => *worst = Some((metrics, set.to_owned())),
                    Some((so_far, worst_set)) => {
                        if so_far.merge(&metrics) {
                            set.clone_into(worst_set);
                        }
                    }
                }
            }
        }
    }
}

/// The ways in which `check` feeds a set.
fn trials(check: CheckName, golden: &GoldenSet) -> Result<Vec<Trial>, Error> {
    Ok(match check {
        CheckName::Prefill | CheckName::Last => vec![prefill(golden)],
        CheckName::Chunked => chunked(golden).into_iter().collect(),
        CheckName::Decode => decode(golden).into_iter().collect(),
        CheckName::Padded => padding::padded(golden),
        CheckName::MaskedRow => padding::masked_row(golden).into_iter().collect(),
        CheckName::Greedy => greedy::continuation(golden)?.into_iter().collect(),
        CheckName::Batch | CheckName::Cache => Vec::new(),
    })
}

/// Every attended column against itself.
fn identity(golden: &GoldenSet) -> Vec<Option<Expected>> {
    let prompt = golden.prompt();
    let indices = golden.index_of_columns();
    let cell = |row, column: usize| indices[column].filter(|_| prompt.attends(row, column)).map(|index| Expected { row, index });
    (0..prompt.batch()).flat_map(|row| (0..prompt.sequence()).map(move |column| (row, column))).map(|(r, c)| cell(r, c)).collect()
}

fn prefill(golden: &GoldenSet) -> Trial {
    let prompt = golden.prompt().clone();
    let steps = at_once(&prompt, prompt.sequence(), golden.vocab());
    Trial { check: CheckName::Prefill, steps, expected: identity(golden), finite: false, prompt }
}

/// A fifth, a half, and the rest.
fn chunked(golden: &GoldenSet) -> Option<Trial> {
    let prompt = golden.prompt().clone();
    let sequence = prompt.sequence();
    let first = prompt.first_step((sequence / 5).max(1))?;
    let second = (first + (sequence / 2).max(1)).min(sequence - 1);
    let steps = [first, second, sequence];
    (first < second).then(|| Trial { check: CheckName::Chunked, steps: steps.to_vec(), expected: identity(golden), finite: false, prompt })
}

/// Compares the columns after the first part only: those that came through the cache.
fn decode(golden: &GoldenSet) -> Option<Trial> {
    let prompt = golden.prompt().clone();
    let first = decode_split(&prompt)?;
    let mut expected = identity(golden);
    for row in expected.chunks_exact_mut(prompt.sequence()) {
        row[..first].fill(None);
    }
    let steps = then_one_by_one(&prompt, first, golden.vocab());
    Some(Trial { check: CheckName::Decode, steps, expected, finite: false, prompt })
}

/// `first` columns, then the rest token by token.
fn then_one_by_one(prompt: &PromptSet, first: usize, vocab: usize) -> Vec<usize> {
    let mut steps = at_once(prompt, first, vocab);
    steps.extend(first + 1..=prompt.sequence());
    steps
}

/// Columns of the first part: all but the second half or the last 32, but at least one real token of each row. `None` where nothing is left
/// to decode.
pub(crate) fn decode_split(prompt: &PromptSet) -> Option<usize> {
    let begins = |row: usize| (0..prompt.sequence()).find(|&column| prompt.attends(row, column));
    let begun = (0..prompt.batch()).filter_map(begins).max().unwrap_or(0) + 1;
    prompt.first_step((prompt.sequence() - DECODE_STEPS.min(prompt.sequence().div_ceil(2))).max(begun))
}

#[cfg(test)]
mod tests;
