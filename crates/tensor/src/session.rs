//! What a runtime looks like to the one who checks it.

use crate::{Batch, DType, HostTensor, SessionError};

/// Name, dtype and shape of one input or output; symbolic dimensions are `Err(name)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSignature {
    /// As in the graph, `past_key_values.0.key` for example.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Dimensions: a number, or the symbol's name.
    pub shape: Vec<Result<u64, String>>,
}

/// Inputs and outputs of a session, in the graph's order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signature {
    /// Inputs.
    pub inputs: Vec<TensorSignature>,
    /// Outputs.
    pub outputs: Vec<TensorSignature>,
}

/// Logits of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Logits {
    /// Number of rows.
    pub batch: usize,
    /// Positions a row: the step's `sequence`, or 1 where the graph gives only the last attended position.
    pub sequence: usize,
    /// Entries a position.
    pub vocab: usize,
    /// `[batch, sequence, vocab]`, row-major fp32.
    pub data: Vec<f32>,
}

impl Logits {
    /// The `[vocab]` logits of `row` at `position` (an index into this step's positions).
    pub fn at(&self, row: usize, position: usize) -> &[f32] {
        let start = (row * self.sequence + position) * self.vocab;
        &self.data[start..start + self.vocab]
    }

    /// Those of `positions` only, `[batch, positions, vocab]`.
    fn at_positions(self, positions: &[usize]) -> Self {
        if positions.iter().copied().eq(0..self.sequence) {
            return self;
        }
        let rows = (0..self.batch).flat_map(|row| positions.iter().map(move |&position| (row, position)));
        let data = rows.flat_map(|(row, position)| self.at(row, position)).copied().collect();
        Self { sequence: positions.len(), data, ..self }
    }
}

/// Keys and values of one layer, `[batch, kv_heads, past, head_dim]`, widened to fp32.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheLayer {
    /// After rotation, as attention reads them.
    pub key: HostTensor,
    /// As attention reads them.
    pub value: HostTensor,
}

/// A copy of a session's whole cache, layer by layer.
pub type Cache = Vec<CacheLayer>;

/// A model being executed, with its cache: what [`Session::step`] appends stays until [`Session::reset`].
pub trait Session {
    /// `rten`, `ort`, `tensorrt` or `reference`.
    fn runtime(&self) -> &'static str;

    /// Inputs and outputs. The reference has none.
    fn signature(&self) -> &Signature;

    /// Tokens a row in the cache.
    fn past(&self) -> usize;

    /// Empties the cache and sets the number of rows.
    ///
    /// # Errors
    /// The runtime cannot allocate or does not allow this batch size.
    fn reset(&mut self, batch: usize) -> Result<(), SessionError>;

    /// Appends `batch` after what each row already holds.
    ///
    /// # Errors
    /// The arrays do not fit each other, the cache or the signature; or the runtime fails.
    fn step(&mut self, batch: &Batch) -> Result<Logits, SessionError>;

    /// As [`Session::step`], where only the logits of `positions` are wanted (indices into this step's positions, the same for every row). A
    /// session that can leaves the others out.
    ///
    /// # Errors
    /// As [`Session::step`]; or the session gives the last position only, and another is wanted.
    fn step_at(&mut self, batch: &Batch, positions: &[usize]) -> Result<Logits, SessionError> {
        let all = self.step(batch)?;
        if all.sequence == batch.sequence {
            return Ok(all.at_positions(positions));
        }
        let last_is_wanted = positions == [batch.sequence - 1];
        if last_is_wanted { Ok(all) } else { Err(SessionError::Unsupported("it gives the logits of the last position only".to_owned())) }
    }

    /// Copies the cache out.
    ///
    /// # Errors
    /// The runtime cannot give it.
    fn cache(&self) -> Result<Cache, SessionError>;

    /// The values that the session was opened to look at, as the last step left them: one for each, in the order they were asked for,
    /// widened to fp32; `None` for one that is no float tensor. Empty before the first step.
    fn tapped(&self) -> &[Option<HostTensor>] {
        &[]
    }
}
