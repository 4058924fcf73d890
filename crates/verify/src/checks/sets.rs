//! Which check is made on which prompt sets: all that teach something, at a cost that a large model can bear.

use super::greedy_from;
use crate::verdict::CheckName;
use crate::{Error, Golden, GoldenSet};

/// Tokens of a set that is fed in many variants, at most, where there is a smaller one.
const SMALL: usize = 512;
/// Fewest columns of a set that is fed beside variants of itself, where there is a longer one.
const TELLING: usize = 8;

/// The checks in their order, each with its sets.
pub(super) fn plan(golden: &Golden) -> Result<Vec<(CheckName, Vec<&GoldenSet>)>, Error> {
    let sets: Vec<&GoldenSet> = golden.sets().iter().collect();
    let mut generated = Vec::new();
    for set in &sets {
        generated.push(greedy_from(set)?.is_some());
    }
    let with = |wanted: bool| -> Vec<&GoldenSet> {
        sets.iter().zip(&generated).filter(|(_, generated)| **generated == wanted).map(|(set, _)| *set).collect()
    };
    let given = if generated.contains(&false) { with(false) } else { sets.clone() };
    let small = small(&given);
    let one: Vec<&GoldenSet> = telling(&small).into_iter().collect();
    Ok(vec![
        (CheckName::Prefill, sets.clone()),
        (CheckName::Chunked, given.clone()),
        (CheckName::Decode, given.clone()),
        (CheckName::Padded, small),
        (CheckName::MaskedRow, one.clone()),
        (CheckName::Batch, one),
        (CheckName::Greedy, with(true)),
    ])
}

/// Those of few tokens; where there are none, the smallest.
fn small<'a>(sets: &[&'a GoldenSet]) -> Vec<&'a GoldenSet> {
    let tokens = |set: &&&GoldenSet| set.prompt().batch() * set.prompt().sequence();
    let small: Vec<&GoldenSet> = sets.iter().filter(|set| tokens(set) <= SMALL).copied().collect();
    if small.is_empty() { sets.iter().min_by_key(tokens).copied().into_iter().collect() } else { small }
}

/// The shortest set of enough columns whose first row has no padding, or the longest there is.
fn telling<'a>(sets: &[&'a GoldenSet]) -> Option<&'a GoldenSet> {
    let whole = |set: &&&GoldenSet| (0..set.prompt().sequence()).all(|column| set.prompt().attends(0, column));
    let columns = |set: &&&GoldenSet| set.prompt().sequence();
    let whole: Vec<&GoldenSet> = sets.iter().filter(whole).copied().collect();
    let enough = whole.iter().filter(|set| columns(set) >= TELLING).min_by_key(columns);
    enough.or_else(|| whole.iter().max_by_key(columns)).copied()
}
