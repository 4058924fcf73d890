//! The reference as a session: one step after another over a cache.

use std::sync::Arc;

use plansmith_checkpoint::Checkpoint;
use plansmith_families::{Activation, Attention, DecoderSpec, Mlp};
use plansmith_tensor::{Batch, Cache, Logits, Session, SessionError, Signature};
use rayon::prelude::*;

use crate::Error;
use crate::attention::attend;
use crate::cache::{self, LayerCache};
use crate::exp::exp_of_negative;
use crate::linear::{add, linear};
use crate::norm::{rms, rms_in_place};
use crate::range::{LayerRange, raise};
use crate::rotation::Rotation;
use crate::weights::Weights;

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
        let spec = spec.into();
        let weights = Weights::open(&spec, checkpoint)?;
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
        Ok(rayon::scope(|_| self.execute(batch, positions)))
    }

    fn execute(&mut self, batch: &Batch, positions: &[usize]) -> Logits {
        let mut x = self.embed(&batch.input_ids);
        let rotations: Vec<_> = self.spec.ropes.iter().map(|rope| Rotation::new(rope, &batch.position_ids)).collect();
        for ((layer, cache), range) in self.spec.layers.iter().zip(&mut self.layers).zip(&mut self.ranges) {
            let normed = rms(&self.weights, &layer.input_norm, &x);
            add(&mut x, &attention(&self.weights, &layer.attention, &rotations, cache, batch, &normed, &mut range.self_attn));
            raise(&mut range.residual, &x);
            let normed = rms(&self.weights, &layer.post_attention_norm, &x);
            add(&mut x, &feed_forward(&self.weights, &layer.mlp, normed, &mut range.mlp));
            raise(&mut range.residual, &x);
        }
        self.past += batch.sequence;

        let width = self.spec.hidden_size as usize;
        let mut last = Vec::with_capacity(batch.batch * positions.len() * width);
        for row in 0..batch.batch {
            for position in positions {
                last.extend_from_slice(&x[(row * batch.sequence + position) * width..][..width]);
            }
        }
        rms_in_place(&self.weights, &self.spec.final_norm, &mut last);
        let data = if last.is_empty() { last } else { linear(&self.weights, &self.spec.head.linear, &last) };
        Logits { batch: batch.batch, sequence: positions.len(), vocab: self.spec.vocab_size as usize, data }
    }

    fn check(&self, batch: &Batch) -> Result<(), SessionError> {
        if batch.batch != self.batch {
            return Err(SessionError::Batch(format!("it has {} rows; the session was reset for {}", batch.batch, self.batch)));
        }
        batch.check(self.past)?;
        let vocab = self.spec.vocab_size;
        match batch.input_ids.iter().find(|&&id| u64::try_from(id).map_or(true, |id| id >= vocab)) {
            Some(id) => Err(SessionError::Batch(format!("token id {id} is outside the vocabulary of {vocab}"))),
            None => Ok(()),
        }
    }

    /// `[tokens, hidden_size]`.
    fn embed(&self, ids: &[i64]) -> Vec<f32> {
        let table = self.weights.matrix(&self.spec.embedding.weight);
        let mut x = Vec::with_capacity(ids.len() * table.column_count());
        for &id in ids {
            let id = id as usize;
            table.with_rows(id..id + 1, |row| x.extend_from_slice(row));
        }
        x
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

    fn cache(&self) -> Result<Cache, SessionError> {
        Ok(self.layers.iter().map(|layer| layer.copy(self.past)).collect())
    }
}

/// Self-attention of one layer over `x`, `[tokens, hidden_size]`; appends this step's keys and values to `cache`.
fn attention(
    weights: &Weights,
    attention: &Attention,
    rotations: &[Rotation],
    cache: &mut LayerCache,
    batch: &Batch,
    x: &[f32],
    peak: &mut f32,
) -> Vec<f32> {
    let mut query = linear(weights, &attention.query, x);
    let mut key = linear(weights, &attention.key, x);
    let value = linear(weights, &attention.value, x);
    for projected in [&query, &key, &value] {
        raise(peak, projected);
    }
    if let Some(norms) = &attention.head_norms {
        rms_in_place(weights, &norms.query, &mut query);
        rms_in_place(weights, &norms.key, &mut key);
    }
    let rotation = &rotations[attention.rope];
    rotation.apply(&mut query, attention.heads as usize);
    rotation.apply(&mut key, attention.kv_heads as usize);
    cache.append(batch.sequence, &key, &value);
    let output = linear(weights, &attention.output, &attend(attention, cache, batch, &query));
    raise(peak, &output);
    output
}

/// The feed-forward part of one layer over `x`, `[tokens, hidden_size]`.
fn feed_forward(weights: &Weights, mlp: &Mlp, x: Vec<f32>, peak: &mut f32) -> Vec<f32> {
    let mut gate = linear(weights, &mlp.gate, &x);
    let up = linear(weights, &mlp.up, &x);
    raise(peak, &gate);
    raise(peak, &up);
    gate.par_chunks_mut(CHUNK).zip(up.par_chunks(CHUNK)).for_each(|(gate, up)| gated(mlp.activation, gate, up));
    raise(peak, &gate);
    let output = linear(weights, &mlp.down, &gate);
    raise(peak, &output);
    output
}

/// Elements of a task that needs no matrix.
const CHUNK: usize = 1 << 14;

/// `gate = activation(gate) · up`.
fn gated(activation: Activation, gate: &mut [f32], up: &[f32]) {
    match activation {
        Activation::Silu => {
            for (gate, up) in gate.iter_mut().zip(up) {
                *gate *= sigmoid(*gate) * up;
            }
        }
    }
}

fn sigmoid(x: f32) -> f32 {
    let small = exp_of_negative(-x.abs());
    (if x < 0.0 { small } else { 1.0 }) / (1.0 + small)
}
