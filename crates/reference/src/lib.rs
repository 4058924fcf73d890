//! The built-in oracle: a [`DecoderSpec`](plansmith_families::DecoderSpec) executed eagerly in fp32 from the mapped weights.
//!
//! It shares the spec with the exporter and nothing else: it never sees a graph, and computes with another library (faer). Where both
//! agree, the export is right for this spec; whether the spec is right for the checkpoint is for logits of transformers to prove.
//!
//! Weights are read layer by layer from the map: fp32 in place, 16-bit ones widened a block at a time. Pages of large models are
//! given back after use, so that memory grows with batch and context, not with the model.

mod activation;
mod alibi;
mod attend;
mod attention;
mod cache;
mod embedding;
mod error;
mod exp;
mod head;
mod in_out;
mod layer;
mod linear;
mod mlp;
mod norm;
mod projections;
mod range;
mod rotation;
mod rounding;
mod session;
mod softmax;
mod step;
#[cfg(test)]
mod testing;
mod vector;
mod weights;

pub use error::Error;
pub use range::LayerRange;
pub use rounding::{Rounding, Significand};
pub use session::Reference;
