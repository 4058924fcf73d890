//! BioGPT: OPT's layers, an embedding scaled by √hidden_size, a head called `output_projection`.
//!
//! Source: transformers 5.24 `models/biogpt`.

use crate::config::Config;
use crate::gpt::{self, Intermediate, SizeKeys};
use crate::names::NormStyle;
use crate::opt::{self, NormPlace};
use crate::registry::{Family, Options};
use crate::{DecoderSpec, Error, Tensors, activation};

pub(crate) const FAMILY: Family = Family {
    model_type: "biogpt",
    architecture: "BioGptForCausalLM",
    prefix: "biogpt.",
    summary: "BioGPT and BioGPT-Large",
    // Its norms have PyTorch's epsilon whatever the key says.
    refuses: &[],
    irrelevant: &["layer_norm_eps"],
    read,
};

const KEYS: SizeKeys = SizeKeys {
    vocab_size: 42_384,
    hidden_size: ("hidden_size", None, 1024),
    layers: ("num_hidden_layers", None, 24),
    heads: ("num_attention_heads", None, 16),
    max_positions: ("max_position_embeddings", None, 1024),
    intermediate_size: Intermediate::Key("intermediate_size", 4096),
    tied: true,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, _: &Options) -> Result<DecoderSpec, Error> {
    let core = KEYS.read(config, opt::EPS, activation::read(config, "hidden_act", "gelu")?)?;
    let mut embedding = core.embedding("biogpt.embed_tokens");
    let head = core.output_head("output_projection", &embedding.weight, false, tensors);
    embedding.positions = gpt::learned(&core, "biogpt.embed_positions", opt::OFFSET);
    if config.flag_or("scale_embedding", true)? {
        embedding.scale = (core.hidden_size as f64).sqrt();
    }
    let final_norm = NormStyle::Layer.norm("biogpt.layer_norm", &core.hidden(), core.eps);
    let layer = |index: u64| opt::layer(&core, &format!("biogpt.layers.{index}"), true, NormStyle::Layer, NormPlace::Before);
    Ok(gpt::decoder(&core, embedding, Vec::new(), layer, Some(final_norm), head))
}
