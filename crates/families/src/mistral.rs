//! Mistral: as Llama without biases, and one window for all layers: 4096 where the key is absent, none where it is `null`.
//!
//! Source: transformers 5.24 `models/mistral`.

use crate::config::Config;
use crate::names::{Core, CoreDefaults, HeadDim, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Tensors, windows};

pub(crate) const FAMILY: Family = Family {
    model_type: "mistral",
    architecture: "MistralForCausalLM",
    prefix: "model.",
    summary: "Mistral 7B, Nemo, Small and their descendants",
    refuses: &["layer_types", "attention_bias"],
    irrelevant: &[],
    read,
};

pub(crate) const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 32_000,
    hidden_size: 4096,
    intermediate_size: 14_336,
    layers: 32,
    heads: 32,
    kv_heads: Some(8),
    head_dim: HeadDim::RoundedDown,
    max_positions: 131_072,
    eps: ("rms_norm_eps", 1e-6),
    activation: ("hidden_act", "silu"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let variant = Variant {
        windows: vec![windows::width(config, Some(4096))?; core.layers as usize],
        ..Variant::llama(rope::read(config, &RopeRules::of(&core), FAMILY.model_type, options)?)
    };
    Ok(pre_norm(&core, variant, tensors))
}
