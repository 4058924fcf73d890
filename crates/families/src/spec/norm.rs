//! Norms.

use super::Weight;

/// What is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormKind {
    /// `x / sqrt(mean(x²) + eps)`. Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", equation 4.
    Rms,
    /// `(x − mean(x)) / sqrt(mean((x − mean(x))²) + eps)`. Source: Ba et al., "Layer Normalization", equation 3.
    Layer,
}

/// The factors after division.
#[derive(Debug, Clone, PartialEq)]
pub enum Gain {
    /// None: the factor is 1.
    One,
    /// `weight + offset`; the weight is `[width]`, or `[heads, width]` with factors of their own for each head.
    Weight {
        /// Stored factors.
        weight: Weight,
        /// Added to each (0 or 1).
        offset: f64,
    },
    /// One `[width]` tensor for each head, in order.
    PerHead(Vec<Weight>),
}

/// A norm over the last axis: `normalised(x) · gain + bias`. Whatever `x` is in, the mean is taken in fp32.
#[derive(Debug, Clone, PartialEq)]
pub struct Norm {
    /// What is divided by.
    pub kind: NormKind,
    /// Length of the last axis.
    pub width: u64,
    /// Factors.
    pub gain: Gain,
    /// `[width]`.
    pub bias: Option<Weight>,
    /// Added to the mean square.
    pub eps: f64,
}

/// Over what a norm of queries or keys is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormExtent {
    /// Over each head: `width` is `head_dim`.
    Head,
    /// Over all heads of a token at once: `width` is `heads × head_dim` (`kv_heads × head_dim` for keys).
    AllHeads,
}

impl Norm {
    /// Gain and bias, as far as stored.
    pub fn weights(&self) -> Vec<&Weight> {
        let mut all: Vec<&Weight> = match &self.gain {
            Gain::One => Vec::new(),
            Gain::Weight { weight, .. } => vec![weight],
            Gain::PerHead(weights) => weights.iter().collect(),
        };
        all.extend(&self.bias);
        all
    }
}
