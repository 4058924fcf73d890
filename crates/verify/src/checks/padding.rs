//! Rows with padding, and rows that are nothing else.

use super::{identity, then_one_by_one};
use crate::trial::{Expected, Trial, at_once};
use crate::verdict::CheckName;
use crate::{GoldenSet, PromptSet};

/// Tokens that are fed one by one after a padded prefill.
const STEPS: usize = 4;

/// Rows alone; and where there is no padding, the first row beside padded beginnings of itself.
pub(super) fn padded(golden: &GoldenSet) -> Vec<Trial> {
    let prompt = golden.prompt();
    let mut trials = Vec::new();
    if prompt.batch() > 1 || prompt.is_padded() {
        trials.extend((0..prompt.batch()).filter_map(|row| row_alone(golden, row)));
    }
    if !prompt.is_padded() {
        trials.extend(beside_its_beginning(golden, Side::Left));
        trials.extend(beside_its_beginning(golden, Side::Right));
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
    let alone = alone.switching_at(prompt.switch_length());
    let steps = at_once(&alone, alone.sequence(), golden.vocab());
    prompt.shares_side(&alone).then_some(Trial { check: CheckName::Padded, steps, expected, finite: false, prompt: alone })
}

/// Where padding goes.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
}

/// The first row, and below it its beginning with padding on one side.
fn beside_its_beginning(golden: &GoldenSet, side: Side) -> Option<Trial> {
    let prompt = golden.prompt();
    let sequence = prompt.sequence();
    let indices = golden.index_of_columns();
    // The beginning ends at a stored column: there a session that gives only the last position can be compared.
    let length = (1..sequence).filter(|length| indices[length - 1].is_some()).min_by_key(|length| length.abs_diff(sequence.div_ceil(2)))?;
    let pads = sequence - length;
    let beside = |values: &[i64], pad: i64| -> Vec<i64> {
        let (padding, beginning) = (vec![pad; pads], &values[..length]);
        let second = if side == Side::Left { [&padding, beginning].concat() } else { [beginning, &padding].concat() };
        [&values[..sequence], &second].concat()
    };
    let mask = beside(&vec![1; sequence], 0);
    let both =
        PromptSet::new(prompt.name(), 2, beside(prompt.input_ids(), 0), Some(mask), Some(beside(prompt.position_ids(), 1)), None).ok()?;
    let both = both.switching_at(prompt.switch_length());
    let cell = |row: usize| {
        let indices = &indices;
        let shift = if row == 1 && side == Side::Left { pads } else { 0 };
        let end = if row == 1 { shift + length } else { sequence };
        (0..sequence).map(move |column| {
            let index = (shift..end).contains(&column).then(|| indices[column - shift]).flatten();
            index.map(|index| Expected { row: 0, index })
        })
    };
    let expected = cell(0).chain(cell(1)).collect();
    let least = sequence - STEPS.min(length - 1).min(sequence - 1);
    let first = both.first_step(least).unwrap_or(sequence);
    let steps = then_one_by_one(&both, first, golden.vocab());
    Some(Trial { check: CheckName::Padded, steps, expected, finite: false, prompt: both })
}

/// The first row, and below it the same with a mask of zeros: that row must be finite, and the first what it is alone.
pub(super) fn masked_row(golden: &GoldenSet) -> Option<Trial> {
    let prompt = golden.prompt();
    let sequence = prompt.sequence();
    let twice = |values: &[i64]| [&values[..sequence], &values[..sequence]].concat();
    let mask = [prompt.attention_mask()[..sequence].to_vec(), vec![0; sequence]].concat();
    let positions = [prompt.position_ids()[..sequence].to_vec(), vec![1; sequence]].concat();
    let both = PromptSet::new(prompt.name(), 2, twice(prompt.input_ids()), Some(mask), Some(positions), None).ok()?;
    let both = both.switching_at(prompt.switch_length());
    let mut expected = identity(golden)[..sequence].to_vec();
    expected.resize(2 * sequence, None);
    let first = both.first_step((sequence - STEPS.min(sequence - 1)).max(1)).unwrap_or(sequence);
    let steps = then_one_by_one(&both, first, golden.vocab());
    Some(Trial { check: CheckName::MaskedRow, steps, expected, finite: true, prompt: both })
}
