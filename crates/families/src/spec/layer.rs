//! One layer: two blocks, and how they meet the residual stream.

use super::{Attention, Mlp, Norm, Weight};

/// One layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Self-attention.
    pub attention: Attention,
    /// How it meets the stream.
    pub attention_join: Join,
    /// Feed-forward part.
    pub mlp: Mlp,
    /// How it meets the stream.
    pub mlp_join: Join,
    /// One after the other, or both at once.
    pub arrangement: Arrangement,
}

/// Order of the two blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrangement {
    /// The feed-forward part reads what attention left in the stream.
    Sequential,
    /// Both read the stream as it came: `x + attention's term + feed-forward term`. Neither has a `stream_norm`, and both have
    /// [`Residual::Stream`].
    Parallel,
}

/// `x ← stream_norm(residual + scale · output_norm(block(input_norm(x))))`.
#[derive(Debug, Clone, PartialEq)]
pub struct Join {
    /// Before the block.
    pub input_norm: Option<Norm>,
    /// After the block.
    pub output_norm: Option<Norm>,
    /// Factor on the block's result.
    pub scale: f64,
    /// What the result is added to.
    pub residual: Residual,
    /// After the addition.
    pub stream_norm: Option<Norm>,
}

/// What a block's result is added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residual {
    /// `x`.
    Stream,
    /// `input_norm(x)`.
    Normed,
}

impl Layer {
    pub(super) fn weights(&self) -> Vec<&Weight> {
        let mut all: Vec<&Weight> = self.attention_join.input_norm.iter().flat_map(Norm::weights).collect();
        all.extend(self.attention.weights());
        all.extend(self.attention_join.after().flat_map(Norm::weights));
        all.extend(self.mlp_join.input_norm.iter().flat_map(Norm::weights));
        all.extend(self.mlp.weights());
        all.extend(self.mlp_join.after().flat_map(Norm::weights));
        all
    }
}

impl Join {
    /// A norm before the block and nothing else.
    pub fn pre_norm(norm: Norm) -> Self {
        Self { input_norm: Some(norm), output_norm: None, scale: 1.0, residual: Residual::Stream, stream_norm: None }
    }

    fn after(&self) -> impl Iterator<Item = &Norm> {
        self.output_norm.iter().chain(&self.stream_norm)
    }
}
