//! What a bisection feeds: the plainest way of running first.

use std::fmt;

use plansmith_tensor::Batch;
use serde::{Deserialize, Serialize};

use crate::checks::decode_split;
use crate::{PromptSet, Prompts};

/// How a run feeds its prompt set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// One step, no padding.
    Prefill,
    /// One step, padded.
    Padded,
    /// Without padding in two steps, the second of many tokens.
    Chunked,
    /// A first part, then token by token.
    Decode,
    /// The same with padding.
    PaddedDecode,
}

impl fmt::Display for RunKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prefill => "prefill",
            Self::Padded => "padded prefill",
            Self::Chunked => "prefill in two parts",
            Self::Decode => "decode",
            Self::PaddedDecode => "padded decode",
        })
    }
}

/// One token of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Row of the batch.
    pub row: usize,
    /// Column of the row, padding and past counted.
    pub column: usize,
    /// Position that the model is told.
    pub position: i64,
    /// Whether it is no padding.
    pub attended: bool,
    /// Whether its row holds padding anywhere.
    pub padded_row: bool,
}

/// One step of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BisectStep {
    /// The input.
    pub batch: Batch,
    /// Its tokens, row by row.
    pub tokens: Vec<Token>,
}

/// A prompt set and how it is fed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BisectRun {
    /// How.
    pub kind: RunKind,
    /// Which set.
    pub set: String,
    /// Rows.
    pub rows: usize,
    /// In order, over one cache.
    pub steps: Vec<BisectStep>,
}

/// The runs that a bisection makes until one differs: unpadded prefills from short to long, then padded ones, then prefill in two parts,
/// then decode, then decode with padding. The first is always unpadded where any set is.
pub fn bisect_runs(prompts: &Prompts) -> Vec<BisectRun> {
    let mut sets: Vec<&PromptSet> = prompts.sets().iter().collect();
    // A set of a token or two fits too much to tell values apart: short ones come after the shortest that does.
    sets.sort_by_key(|set| (set.is_padded(), set.sequence() < 4, set.batch() * set.sequence()));
    let mut runs = Vec::new();
    for set in sets {
        let (whole, stepwise) =
            if set.is_padded() { (RunKind::Padded, RunKind::PaddedDecode) } else { (RunKind::Prefill, RunKind::Decode) };
        runs.push(run(whole, set, &[0, set.sequence()]));
        if let Some(middle) = set.first_step(set.sequence().div_ceil(2)).filter(|_| !set.is_padded()) {
            runs.push(run(RunKind::Chunked, set, &[0, middle, set.sequence()]));
        }
        if let Some(first) = decode_split(set) {
            let cuts: Vec<usize> = std::iter::once(0).chain(first..=set.sequence()).collect();
            runs.push(run(stepwise, set, &cuts));
        }
    }
    runs.sort_by_key(|run| run.kind);
    runs
}

fn run(kind: RunKind, set: &PromptSet, cuts: &[usize]) -> BisectRun {
    let step = |cut: &[usize]| {
        let (from, to) = (cut[0], cut[1]);
        let padded = |row: usize| (0..set.sequence()).any(|column| !set.attends(row, column));
        let token = |row: usize, column: usize| Token {
            row,
            column,
            position: set.position_ids()[row * set.sequence() + column],
            attended: set.attends(row, column),
            padded_row: padded(row),
        };
        let tokens = (0..set.batch()).flat_map(|row| (from..to).map(move |column| (row, column)));
        BisectStep { batch: set.slice(from, to), tokens: tokens.map(|(row, column)| token(row, column)).collect() }
    };
    BisectRun { kind, set: set.name().to_owned(), rows: set.batch(), steps: cuts.windows(2).map(step).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_runs_come_first_and_every_way_of_running_occurs() {
        let runs = bisect_runs(&Prompts::builtin(128, 256, &[]).unwrap());
        assert_eq!((runs[0].kind, runs[0].steps.len()), (RunKind::Prefill, 1));
        assert!(runs[0].steps[0].tokens.len() >= 4);
        assert!(runs.is_sorted_by_key(|run| run.kind));
        for kind in [RunKind::Prefill, RunKind::Padded, RunKind::Chunked, RunKind::Decode, RunKind::PaddedDecode] {
            assert!(runs.iter().any(|run| run.kind == kind), "{kind}");
        }
        for run in &runs {
            let mut past = 0;
            for step in &run.steps {
                step.batch.check(past).unwrap();
                assert_eq!(step.tokens.len(), step.batch.batch * step.batch.sequence);
                past += step.batch.sequence;
            }
        }
    }
}
