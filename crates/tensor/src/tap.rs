//! Names of the places where one step can be looked into.

use std::fmt;

/// A place in a decoder whose value two implementations of one model share, `[tokens, width]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tap {
    /// The residual stream before the first layer.
    Embedding,
    /// What attention of a layer gives, before it meets the stream.
    Attention(usize),
    /// What the feed-forward part of a layer gives, before it meets the stream.
    Mlp(usize),
    /// The residual stream after a layer.
    Layer(usize),
    /// What the head reads.
    FinalNorm,
    /// Logits.
    Logits,
}

impl Tap {
    /// The layer that it belongs to.
    pub fn layer(self) -> Option<usize> {
        match self {
            Self::Attention(layer) | Self::Mlp(layer) | Self::Layer(layer) => Some(layer),
            Self::Embedding | Self::FinalNorm | Self::Logits => None,
        }
    }

    /// Whether all that comes later depends on it alone (and on the cache): the residual stream, not what a block adds to it.
    pub fn is_stream(self) -> bool {
        !matches!(self, Self::Attention(_) | Self::Mlp(_))
    }
}

impl fmt::Display for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedding => f.write_str("embedding"),
            Self::Attention(layer) => write!(f, "layers.{layer}.self_attn"),
            Self::Mlp(layer) => write!(f, "layers.{layer}.mlp"),
            Self::Layer(layer) => write!(f, "layers.{layer}"),
            Self::FinalNorm => f.write_str("final_norm"),
            Self::Logits => f.write_str("logits"),
        }
    }
}
