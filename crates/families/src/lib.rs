//! Model families: from `config.json` and the names of the stored tensors to a [`DecoderSpec`].
//!
//! One file a family. The only crate that names families; the others see the spec, whose axes are named by their mathematics.

mod activation;
mod bind;
mod config;
mod error;
mod names;
mod registry;
mod rope;
mod spec;
mod windows;

mod apertus1p5_text;
mod apertus;
mod arcee;
mod bitnet;
mod cohere2;
mod cohere;
mod cohere_compass_text;
mod cwm;
mod emu3;
mod ernie4_5;
mod exaone4;
mod exaone;
mod gemma2;
mod gemma3_text;
mod gemma;
mod glm4;
mod glm;
mod granite;
mod granite_swa;
mod helium;
mod hunyuan_v1_dense;
mod hyperclovax;
mod internlm3;
mod iquestcoder;
mod jais2;
mod llama;
mod ministral3;
mod ministral;
mod mistral;
mod modernbert_decoder;
mod nanochat;
mod nemotron;
mod olmo2;
mod olmo3;
mod olmo;
mod phi3;
mod phi;
mod qwen2;
mod qwen3;
mod seed_oss;
mod smollm3;
mod stablelm;
mod starcoder2;
mod vaultgemma;

pub use bind::Tensors;
pub use error::Error;
pub use registry::{Family, Loaded, Options, families, find_family, load};
pub use spec::{
    Activation, Alibi, Arrangement, Attention, DecoderSpec, Embedding, Frequencies, Gain, Head, HeadNorms, HeadTransform, Join, Layer,
    Linear, LinearLayout, Mlp, MlpInput, Norm, NormExtent, NormKind, NormOrder, Pairing, Part, PositionScale, Positions, Projections,
    Residual, Rope, Weight, Xielu,
};
