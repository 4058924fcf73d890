//! What a decoder computes, as numbers and tensor names: no family, no graph, no tensors.
//!
//! With `x` of `[tokens, hidden_size]`: `x = embedding(input_ids)`, then each layer in turn, then `final_norm` and `head`.

mod attention;
mod embedding;
mod layer;
mod mlp;
mod norm;
mod rename;
mod rope;
mod weight;

pub use attention::{Alibi, Attention, HeadNorms, NormOrder, Part, PositionScale, Projections};
pub use embedding::{Embedding, Head, HeadTransform, Positions};
pub use layer::{Arrangement, Join, Layer, Residual};
pub use mlp::{Activation, Mlp, MlpInput, Xielu};
pub use norm::{Gain, Norm, NormExtent, NormKind};
pub use rope::{Frequencies, Pairing, Rope};
pub use weight::{Linear, LinearLayout, Weight};

/// A decoder-only language model.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderSpec {
    /// Entries of the vocabulary; rows of the embedding.
    pub vocab_size: u64,
    /// Width of the residual stream.
    pub hidden_size: u64,
    /// Positions that the model was made for (`max_position_embeddings`).
    pub max_positions: u64,
    /// Token embedding.
    pub embedding: Embedding,
    /// The rotations that layers refer to by index.
    pub ropes: Vec<Rope>,
    /// The layers, first to last.
    pub layers: Vec<Layer>,
    /// Norm before the head.
    pub final_norm: Option<Norm>,
    /// From the residual stream to logits.
    pub head: Head,
}

impl DecoderSpec {
    /// Whether head and embedding are one tensor.
    pub fn is_tied(&self) -> bool {
        self.head.linear.weight.name == self.embedding.weight.name
    }

    /// Every weight, in the order of use; one that is used twice is there twice.
    pub fn weights(&self) -> Vec<&Weight> {
        let mut all = self.embedding.weights();
        for layer in &self.layers {
            all.extend(layer.weights());
        }
        all.extend(self.final_norm.iter().flat_map(Norm::weights));
        all.extend(self.head.weights());
        all
    }

    /// The total length (past and step) up to which every rotation keeps its angles; `None` where they never change.
    ///
    /// Beyond it the angles of all positions change, and keys that were cached before are not those of the longer sequence.
    pub fn switch_length(&self) -> Option<u64> {
        let switch = |rope: &Rope| match rope.frequencies {
            Frequencies::Fixed(_) => None,
            Frequencies::Switched { length, .. } => Some(length),
        };
        self.ropes.iter().filter_map(switch).min()
    }
}
