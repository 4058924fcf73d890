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

mod apertus;
mod apertus1p5_text;
mod arcee;
mod biogpt;
mod bitnet;
mod bloom;
mod codegen;
mod cohere;
mod cohere2;
mod cohere_compass_text;
mod ctrl;
mod cwm;
mod emu3;
mod ernie4_5;
mod exaone;
mod exaone4;
mod falcon;
mod gemma;
mod gemma2;
mod gemma3_text;
mod glm;
mod glm4;
mod gpt2;
mod gpt_bigcode;
mod gpt_neo;
mod gpt_neox;
mod gpt_neox_japanese;
mod gptj;
mod granite;
mod granite_swa;
mod helium;
mod hunyuan_v1_dense;
mod hyperclovax;
mod internlm3;
mod iquestcoder;
mod jais2;
mod llama;
mod ministral;
mod ministral3;
mod mistral;
mod modernbert_decoder;
mod mpt;
mod nanochat;
mod nemotron;
mod olmo;
mod olmo2;
mod olmo3;
mod openai_gpt;
mod opt;
mod persimmon;
mod phi;
mod phi3;
mod qwen2;
mod qwen3;
mod seed_oss;
mod smollm3;
mod stablelm;
mod starcoder2;
mod vaultgemma;
mod xglm;

pub use bind::Tensors;
pub use error::Error;
pub use registry::{Family, Loaded, Options, families, find_family, load};
pub use spec::{
    Activation, Alibi, Arrangement, Attention, DecoderSpec, Embedding, Frequencies, Gain, Head, HeadNorms, HeadTransform, Join, Layer,
    Linear, LinearLayout, Mlp, MlpInput, Norm, NormExtent, NormKind, NormOrder, Pairing, Part, PositionScale, Positions, Projections,
    Residual, Rope, Weight, Xielu,
};
