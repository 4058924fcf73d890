//! The reference as a session: one step after another over a cache.

use std::sync::Arc;

use plansmith_checkpoint::Checkpoint;
use plansmith_families::DecoderSpec;
use plansmith_tensor::{Batch, Cache, HostTensor, Logits, Session, SessionError, Signature, Tap};

use crate::cache::{self, LayerCache};
use crate::embedding::{self, embed};
use crate::norm::norm_in_place;
use crate::range::{LayerRange, raise};
use crate::step::Step;
use crate::weights::Weights;
use crate::{Error, Rounding, head, layer};

/// A model executed in fp32, straight from its checkpoint.
///
/// Weights stored in 16 bits are widened exactly; every product and activation is fp32. It starts with room for one row; see
/// [`Session::reset`].
#[derive(Debug)]
pub struct Reference {
    spec: Arc<DecoderSpec>,
    weights: Weights,
    batch: usize,
    past: usize,
    layers: Vec<LayerCache>,
    ranges: Vec<LayerRange>,
    signature: Signature,
}

impl Reference {
    /// Maps the weights that `spec` names; no payload is read before the first step.
    ///
    /// # Errors
    /// A tensor is missing, has another shape, or is not stored in F32, F16 or BF16; or the files cannot be mapped.
    pub fn open(spec: impl Into<Arc<DecoderSpec>>, checkpoint: &Checkpoint) -> Result<Self, Error> {
        Self::open_rounded(spec, checkpoint, Rounding::default())
    }

    /// As [`Reference::open`], with everything that `rounding` names rounded: what its logits differ by is the noise of that dtype.
    ///
    /// # Errors
    /// As [`Reference::open`].
    pub fn open_rounded(spec: impl Into<Arc<DecoderSpec>>, checkpoint: &Checkpoint, rounding: Rounding) -> Result<Self, Error> {
        let spec = spec.into();
        let mut weights = Weights::open(spec.weights(), checkpoint)?;
        weights.rounding = rounding;
        let layers = cache::empty(&spec, 1);
        let ranges = vec![LayerRange::default(); spec.layers.len()];
        Ok(Self { spec, weights, batch: 1, past: 0, layers, ranges, signature: Signature::default() })
    }

    /// How large activations got, layer by layer, over all steps since it was opened.
    pub fn ranges(&self) -> &[LayerRange] {
        &self.ranges
    }

    /// What is executed.
    pub fn spec(&self) -> &DecoderSpec {
        &self.spec
    }

    /// A step whose logits are computed at `positions` only (indices into this step's positions, the same for every row):
    /// `[batch, positions, vocab]`. With a large vocabulary the head is most of the work and most of the memory.
    ///
    /// # Errors
    /// As [`Session::step`]; or a position is not of this step.
    pub fn step_at(&mut self, batch: &Batch, positions: &[usize]) -> Result<Logits, SessionError> {
        self.check(batch)?;
        if let Some(position) = positions.iter().find(|&&position| position >= batch.sequence) {
            return Err(SessionError::Batch(format!("logits are asked for at position {position}; the step has {}", batch.sequence)));
        }
        // From inside the pool a parallel loop begins on this very thread; from outside each would wake the pool and be woken by it.
        Ok(rayon::scope(|_| self.execute(batch, positions, false)).0)
    }

    /// A step that is looked into: besides the logits of every position the value at every [`Tap`], `[tokens, width]` (tokens row by
    /// row), in the order of computation. All of them are held at once.
    ///
    /// # Errors
    /// As [`Session::step`].
    pub fn step_tapped(&mut self, batch: &Batch) -> Result<(Logits, Vec<(Tap, HostTensor)>), SessionError> {
        self.check(batch)?;
        let all: Vec<usize> = (0..batch.sequence).collect();
        Ok(rayon::scope(|_| self.execute(batch, &all, true)))
    }

    fn execute(&mut self, batch: &Batch, positions: &[usize], tapped: bool) -> (Logits, Vec<(Tap, HostTensor)>) {
        let step = Step::new(&self.spec, &self.weights, batch, tapped);
        let tokens = batch.batch * batch.sequence;
        let mut x = embed(&self.weights, &self.spec.embedding, batch);
        if let Some(first) = self.ranges.first_mut() {
            raise(&mut first.residual, &x);
        }
        step.tap(Tap::Embedding, tokens, &x);
        for ((layer, cache), range) in self.spec.layers.iter().enumerate().zip(&mut self.layers).zip(&mut self.ranges) {
            layer::through(&step, layer, cache, &mut x, range);
            step.tap(Tap::Layer(layer.0), tokens, &x);
        }
        self.past += batch.sequence;

        let width = self.spec.hidden_size as usize;
        let mut last = Vec::with_capacity(batch.batch * positions.len() * width);
        for row in 0..batch.batch {
            for position in positions {
                last.extend_from_slice(&x[(row * batch.sequence + position) * width..][..width]);
            }
        }
        if let Some(norm) = &self.spec.final_norm {
            norm_in_place(&self.weights, norm, &mut last);
        }
        step.tap(Tap::FinalNorm, batch.batch * positions.len(), &last);
        let data = if last.is_empty() { last } else { head::logits(&self.weights, &self.spec.head, last) };
        step.tap(Tap::Logits, batch.batch * positions.len(), &data);
        (Logits { batch: batch.batch, sequence: positions.len(), vocab: self.spec.vocab_size as usize, data }, step.into_taps())
    }

    fn check(&self, batch: &Batch) -> Result<(), SessionError> {
        if batch.batch != self.batch {
            return Err(SessionError::Batch(format!("it has {} rows; the session was reset for {}", batch.batch, self.batch)));
        }
        batch.check(self.past)?;
        embedding::check(&self.spec.embedding, self.spec.vocab_size, batch)
    }
}

impl Session for Reference {
    fn runtime(&self) -> &'static str {
        "reference"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn past(&self) -> usize {
        self.past
    }

    fn reset(&mut self, batch: usize) -> Result<(), SessionError> {
        if batch == 0 {
            return Err(SessionError::Batch("a session needs at least one row".to_owned()));
        }
        (self.batch, self.past, self.layers) = (batch, 0, cache::empty(&self.spec, batch));
        Ok(())
    }

    fn step(&mut self, batch: &Batch) -> Result<Logits, SessionError> {
        let all: Vec<usize> = (0..batch.sequence).collect();
        self.step_at(batch, &all)
    }

    fn step_at(&mut self, batch: &Batch, positions: &[usize]) -> Result<Logits, SessionError> {
        Reference::step_at(self, batch, positions)
    }

    fn cache(&self) -> Result<Cache, SessionError> {
        Ok(self.layers.iter().map(|layer| layer.copy(self.past)).collect())
    }
}
