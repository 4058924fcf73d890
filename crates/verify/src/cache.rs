//! Keys and values of the source, kept for comparison.

use plansmith_tensor::{Cache, HostTensor, Session, SessionError};

use crate::checks::decode_split;
use crate::metrics::{Meter, Metrics, Place};
use crate::noise::{Floor, Noise};
use crate::trial::{Refused, reset};
use crate::verdict::CheckName;
use crate::{Error, PromptSet};

/// The cache of a source after the prefill of one short prompt set.
///
/// Per layer key and value `[batch, kv_heads, sequence, head_dim]` fp32, keys after rotation.
#[derive(Debug, Clone)]
pub struct CapturedCache {
    prompt: PromptSet,
    layers: Cache,
}

impl CapturedCache {
    /// Copies the cache that `source` holds after it was fed all of `prompt`.
    pub(crate) fn of(source: &dyn Session, prompt: &PromptSet) -> Result<Self, Error> {
        let runtime = source.runtime();
        let set = prompt.name().to_owned();
        let layers = source.cache().map_err(|source| Error::Step { check: CheckName::Cache, set, runtime, source })?;
        let captured = Self { prompt: prompt.clone(), layers };
        for (layer, part, tensor) in captured.tensors() {
            if let Err(problem) = check_tensor(tensor, prompt) {
                return Err(captured.output(runtime, format!("{part} of layer {layer} {problem}")));
            }
        }
        Ok(captured)
    }

    /// The prompt set whose keys and values these are.
    pub fn prompt(&self) -> &PromptSet {
        &self.prompt
    }

    fn tensors(&self) -> impl Iterator<Item = (usize, &'static str, &HostTensor)> {
        self.layers.iter().enumerate().flat_map(|(index, layer)| [(index, "key", &layer.key), (index, "value", &layer.value)])
    }

    fn output(&self, runtime: &'static str, problem: String) -> Error {
        Error::Output { check: CheckName::Cache, set: self.prompt.name().to_owned(), runtime, problem }
    }

    /// Feeds the prompt to `candidate`, its second half token by token, and compares every attended position of every tensor.
    ///
    /// Each tensor is measured against its own spread; the worst counts. `positions` are those of the prompt.
    pub(crate) fn compare(&self, candidate: &mut dyn Session, noise: Option<&Noise>) -> Result<Result<Metrics, Refused>, Error> {
        let prompt = &self.prompt;
        let runtime = candidate.runtime();
        let failed = |source: SessionError| Error::Step { check: CheckName::Cache, set: prompt.name().to_owned(), runtime, source };
        if let Err(refused) = reset(candidate, prompt.batch()).map_err(failed)? {
            return Ok(Err(refused));
        }
        let first = decode_split(prompt).unwrap_or(prompt.sequence());
        let steps = std::iter::once((0, first)).chain((first..prompt.sequence()).map(|column| (column, column + 1)));
        for (from, to) in steps {
            if let Err(error) = candidate.step(&prompt.slice(from, to)) {
                return error.inapplicable().map(|reason| Err(Refused(reason))).ok_or_else(|| failed(error));
            }
        }
        let cache = candidate.cache().map_err(failed)?;
        self.compare_with(&cache, noise.and_then(Noise::cache), runtime).map(Ok)
    }

    /// Compares a cache that was filled with the prompt.
    pub(crate) fn compare_with(&self, cache: &Cache, floor: Option<Floor>, runtime: &'static str) -> Result<Metrics, Error> {
        if cache.len() != self.layers.len() {
            return Err(self.output(runtime, format!("a cache of {} layers; the source has {}", cache.len(), self.layers.len())));
        }
        let mut sum: Option<Metrics> = None;
        for (layer, part, wanted) in self.tensors() {
            let given = if part == "key" { &cache[layer].key } else { &cache[layer].value };
            if given.shape != wanted.shape || given.data.len() != wanted.data.len() {
                let (given, wanted) = (&given.shape, &wanted.shape);
                return Err(self.output(runtime, format!("{part} of layer {layer} of shape {given:?}; the source has {wanted:?}")));
            }
            let metrics = self.compare_tensor(wanted, given);
            match &mut sum {
                None => sum = Some(metrics),
                Some(sum) => {
                    sum.merge(&metrics);
                }
            }
        }
        let mut sum = sum.ok_or_else(|| self.output(runtime, "a cache of no layers".to_owned()))?;
        sum.positions = self.attended();
        sum.floor = floor;
        Ok(sum)
    }

    fn attended(&self) -> usize {
        self.prompt.attention_mask().iter().filter(|&&attend| attend == 1).count()
    }

    fn compare_tensor(&self, wanted: &HostTensor, given: &HostTensor) -> Metrics {
        let (rows, sequence) = (self.prompt.batch(), self.prompt.sequence());
        let (heads, width) = (wanted.shape[1], wanted.shape[3]);
        let mut meter = Meter::default();
        for (row, head) in (0..rows).flat_map(|row| (0..heads).map(move |head| (row, head))) {
            for column in (0..sequence).filter(|&column| self.prompt.attends(row, column)) {
                let start = ((row * heads + head) * sequence + column) * width;
                let vector = start..start + width;
                meter.add_values(Place { row, column }, &wanted.data[vector.clone()], &given.data[vector]);
            }
        }
        meter.finish()
    }
}

/// Checks a source's tensor against `[batch, kv_heads, sequence, head_dim]`.
fn check_tensor(tensor: &HostTensor, prompt: &PromptSet) -> Result<(), String> {
    let (batch, sequence) = (prompt.batch(), prompt.sequence());
    match tensor.shape.as_slice() {
        &[rows, heads, past, width] if rows == batch && past == sequence && tensor.data.len() == rows * heads * past * width => Ok(()),
        shape => {
            Err(format!("of shape {shape:?} with {} elements; [{batch}, kv_heads, {sequence}, head_dim] was wanted", tensor.data.len()))
        }
    }
}
