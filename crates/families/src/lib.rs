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

mod cohere;
mod cohere2;
mod cohere_compass_text;
mod ernie4_5;
mod exaone4;
mod glm;
mod glm4;
mod helium;
mod hunyuan_v1_dense;
mod llama;
mod modernbert_decoder;
mod nemotron;
mod olmo;
mod olmo2;
mod olmo3;
mod phi;
mod phi3;
mod qwen2;
mod qwen3;
mod stablelm;
mod starcoder2;

pub use bind::Tensors;
pub use error::Error;
pub use registry::{Family, Loaded, Options, families, find_family, load};
pub use spec::{
    Activation, Alibi, Arrangement, Attention, DecoderSpec, Embedding, Frequencies, Gain, Head, HeadNorms, HeadTransform, Join, Layer,
    Linear, LinearLayout, Mlp, MlpInput, Norm, NormExtent, NormKind, NormOrder, Pairing, Part, PositionScale, Positions, Projections,
    Residual, Rope, Weight, Xielu,
};
