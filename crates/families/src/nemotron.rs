//! Nemotron-3, Nemotron-4 and Minitron: layer norms with factor 1 + weight, a plain feed-forward part with squared ReLU, part of each
//! head rotated.
//!
//! Source: transformers 5.24 `models/nemotron`.

use crate::config::{Config, Stored};
use crate::names::{Core, CoreDefaults, HeadDim, NormStyle, Variant, pre_norm};
use crate::olmo::attention_bias;
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "nemotron",
    architecture: "NemotronForCausalLM",
    prefix: "model.",
    summary: "Nemotron-3 8B, Nemotron-4, Minitron 4B and 8B",
    refuses: &["no num_key_value_heads"],
    irrelevant: &["kv_channels", "layer_norm_eps", "unk_token_id"],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 256_000,
    hidden_size: 6144,
    intermediate_size: 24_576,
    layers: 32,
    heads: 48,
    kv_heads: None,
    head_dim: HeadDim::RoundedDown,
    max_positions: 4096,
    eps: ("norm_eps", 1e-5),
    activation: ("hidden_act", "relu2"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    if !matches!(config.size("num_key_value_heads")?, Stored::Value(_)) {
        return Err(config.error("num_key_value_heads", "is missing, and this class does not compute it"));
    }
    let core = Core::read(config, &DEFAULTS)?;
    let rules = RopeRules { partial: Some(0.5), ..RopeRules::of(&core) };
    let variant = Variant {
        norm: NormStyle::LayerPlusOne,
        attention_bias: attention_bias(config, false)?,
        gated: false,
        mlp_bias: config.flag_or("mlp_bias", false)?,
        ..Variant::llama(rope::read(config, &rules, FAMILY.model_type, options)?)
    };
    Ok(pre_norm(&core, variant, tensors))
}
