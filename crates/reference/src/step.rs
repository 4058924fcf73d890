//! What every layer of a step reads.

use std::sync::{Mutex, PoisonError};

use plansmith_families::DecoderSpec;
use plansmith_tensor::{Batch, HostTensor, Tap};

use crate::rotation::Rotation;
use crate::weights::Weights;

/// One step.
pub(crate) struct Step<'a> {
    pub(crate) weights: &'a Weights,
    pub(crate) batch: &'a Batch,
    /// One for each of the spec's.
    pub(crate) rotations: Vec<Rotation>,
    /// What is looked into; `None` costs nothing.
    taps: Option<Mutex<Vec<(Tap, HostTensor)>>>,
}

impl<'a> Step<'a> {
    pub(crate) fn new(spec: &DecoderSpec, weights: &'a Weights, batch: &'a Batch, tapped: bool) -> Self {
        let rotation = |rope| {
            let exact = Rotation::new(rope, &batch.position_ids);
            match weights.rounding.activations {
                None => exact,
                Some(significand) => exact.rounded(significand),
            }
        };
        let rotations = spec.ropes.iter().map(rotation).collect();
        Self { weights, batch, rotations, taps: tapped.then(Mutex::default) }
    }

    /// Keeps a copy of `values`, `[tokens, width]`, where this step is looked into.
    pub(crate) fn tap(&self, tap: Tap, tokens: usize, values: &[f32]) {
        let Some(taps) = &self.taps else { return };
        let width = values.len().checked_div(tokens).unwrap_or(0);
        let copy = HostTensor { shape: vec![tokens, width], data: values.to_vec() };
        taps.lock().unwrap_or_else(PoisonError::into_inner).push((tap, copy));
    }

    /// What was kept, in the order of computation.
    pub(crate) fn into_taps(self) -> Vec<(Tap, HostTensor)> {
        self.taps.map(|taps| taps.into_inner().unwrap_or_else(PoisonError::into_inner)).unwrap_or_default()
    }
}
