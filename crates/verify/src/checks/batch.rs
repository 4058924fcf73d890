//! Batch invariance: a row is the same whoever is beside it.

use plansmith_tensor::Session;

use super::then_one_by_one;
use crate::metrics::Meter;
use crate::noise::Noise;
use crate::trial::{Refused, feed};
use crate::verdict::CheckName;
use crate::{Error, GoldenSet, PromptSet};

/// Tokens that are fed one by one after the prefill.
const STEPS: usize = 4;

/// Feeds the first row of a set alone, keeps what `candidate` gives at the stored positions, then feeds the row twice in a batch.
pub(super) fn against_alone(
    candidate: &mut dyn Session,
    golden: &GoldenSet,
    noise: Option<&Noise>,
) -> Result<Result<Meter, Refused>, Error> {
    let prompt = golden.prompt();
    let sequence = prompt.sequence();
    let indices = golden.index_of_columns();
    let first = prompt.first_step((sequence - STEPS.min(sequence - 1)).max(1)).unwrap_or(sequence);
    let mut alone: Vec<Option<Vec<f32>>> = vec![None; sequence];
    let mut meter = Meter::beside(noise.map(Noise::typical));
    for rows in [1, 2] {
        let repeated = |values: &[i64]| values[..sequence].repeat(rows);
        let mask = Some(repeated(prompt.attention_mask()));
        let positions = Some(repeated(prompt.position_ids()));
        let set = PromptSet::new(prompt.name(), rows, repeated(prompt.input_ids()), mask, positions, None)?;
        let set = set.switching_at(prompt.switch_length());
        let steps = then_one_by_one(&set, first, golden.vocab());
        let fed = feed(candidate, CheckName::Batch, &set, &steps, golden.vocab(), &mut |place, given| {
            let Some(index) = indices[place.column].filter(|_| prompt.attends(0, place.column)) else { return Ok(()) };
            if rows == 1 {
                alone[place.column] = Some(given.to_vec());
            } else if let Some(wanted) = &alone[place.column] {
                meter.add_logits(place, wanted, given);
                let cell = noise.and_then(|noise| noise.at(golden, 0, index));
                cell.into_iter().for_each(|cell| meter.add_noise(place, cell));
            }
            Ok(())
        })?;
        if let Err(refused) = fed {
            return Ok(Err(refused));
        }
    }
    Ok(Ok(meter))
}
