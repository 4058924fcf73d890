//! What every layer of a step reads.

use plansmith_families::DecoderSpec;
use plansmith_tensor::Batch;

use crate::rotation::Rotation;
use crate::weights::Weights;

/// One step.
pub(crate) struct Step<'a> {
    pub(crate) weights: &'a Weights,
    pub(crate) batch: &'a Batch,
    /// One for each of the spec's.
    pub(crate) rotations: Vec<Rotation>,
}

impl<'a> Step<'a> {
    pub(crate) fn new(spec: &DecoderSpec, weights: &'a Weights, batch: &'a Batch) -> Self {
        let rotation = |rope| {
            let exact = Rotation::new(rope, &batch.position_ids);
            match weights.rounding.activations {
                None => exact,
                Some(significand) => exact.rounded(significand),
            }
        };
        Self { weights, batch, rotations: spec.ropes.iter().map(rotation).collect() }
    }
}
