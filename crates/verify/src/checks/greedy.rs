//! Greedy continuation: what the source generates itself, token by token.

use super::{identity, then_one_by_one};
use crate::trial::Trial;
use crate::verdict::CheckName;
use crate::{Error, GoldenSet};

/// Tokens in a row that have to be the source's own choice for a set to count as its continuation.
const FEWEST: usize = 8;

/// Columns before the part of a set that the source generated: where every id is the entry of the largest stored logit of the column before it,
/// to the end of the one row. `None` for a set that does not end so.
pub(crate) fn greedy_from(golden: &GoldenSet) -> Result<Option<usize>, Error> {
    let prompt = golden.prompt();
    if prompt.batch() != 1 || prompt.is_padded() {
        return Ok(None);
    }
    let indices = golden.index_of_columns();
    let mut logits = Vec::new();
    let mut from = prompt.sequence();
    while from > 1 {
        let Some(index) = indices[from - 1 - 1] else { break };
        golden.read(0, index, &mut logits)?;
        if largest(&logits) != usize::try_from(prompt.input_ids()[from - 1]).ok() {
            break;
        }
        from -= 1;
    }
    Ok((prompt.sequence() - from >= FEWEST).then_some(from))
}

/// The entry of the largest of finite logits, the first among equals.
pub(crate) fn largest(logits: &[f32]) -> Option<usize> {
    let mut best = None;
    for (index, logit) in logits.iter().enumerate() {
        if best.is_none_or(|best: usize| *logit > logits[best]) {
            best = Some(index);
        }
    }
    best
}

/// The prompt in one step, then the source's tokens one by one, whatever the candidate would have chosen: up to its first other choice it is then
/// fed what it would have fed itself. Each choice is compared with the source's, the first one from the prompt alone.
pub(super) fn continuation(golden: &GoldenSet) -> Result<Option<Trial>, Error> {
    let Some(from) = greedy_from(golden)? else { return Ok(None) };
    let prompt = golden.prompt().clone();
    let mut expected = identity(golden);
    expected[..from - 1].fill(None);
    let steps = then_one_by_one(&prompt, from, golden.vocab());
    Ok(prompt.first_step(from).filter(|&first| first == from).map(|_| Trial {
        check: CheckName::Greedy,
        steps,
        expected,
        finite: false,
        prompt,
    }))
}
