//! Model families: from `config.json` and the names of the stored tensors to a [`DecoderSpec`].
//!
//! One file a family. The only crate that names families; the others see the spec, whose axes are named by their mathematics.

mod activation;
mod alibi;
mod bind;
mod config;
mod error;
mod gpt;
mod names;
mod registry;
mod rope;
mod spec;
mod windows;

mod biogpt;
mod bloom;
mod codegen;
mod ctrl;
mod falcon;
mod gpt2;
mod gpt_bigcode;
mod gpt_neo;
mod gpt_neox;
mod gpt_neox_japanese;
mod gptj;
mod llama;
mod mpt;
mod openai_gpt;
mod opt;
mod persimmon;
mod qwen2;
mod qwen3;
mod xglm;

pub use bind::Tensors;
pub use error::Error;
pub use registry::{Family, Loaded, Options, families, find_family, load};
pub use spec::{
    Activation, Alibi, Arrangement, Attention, DecoderSpec, Embedding, Frequencies, Gain, Head, HeadNorms, HeadTransform, Join, Layer,
    Linear, LinearLayout, Mlp, MlpInput, Norm, NormExtent, NormKind, NormOrder, Pairing, Part, PositionScale, Positions, Projections,
    Residual, Rope, Weight, Xielu,
};
