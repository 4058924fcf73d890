//! Model families: from `config.json` and the names of the stored tensors to a [`DecoderSpec`].
//!
//! One file a family. The only crate that names families; the others see the spec, whose axes are named by their mathematics.

mod bind;
mod config;
mod error;
mod names;
mod registry;
mod rope;
mod spec;

mod llama;
mod qwen2;
mod qwen3;

pub use bind::Tensors;
pub use error::Error;
pub use registry::{Family, Loaded, Options, families, find_family, load};
pub use spec::{Activation, Attention, DecoderSpec, Embedding, Head, HeadNorms, Layer, Linear, Mlp, Norm, Rope, Weight};
