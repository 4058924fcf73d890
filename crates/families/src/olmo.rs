//! OLMo: layer norms without stored factors and with a fixed epsilon; queries, keys and values clamped where the config says so.
//!
//! Source: transformers 5.24 `models/olmo`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, NormStyle, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "olmo",
    architecture: "OlmoForCausalLM",
    prefix: "model.",
    summary: "OLMo 1B and 7B, first generation",
    refuses: &[],
    irrelevant: &[],
    read,
};

pub(crate) const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 50_304,
    hidden_size: 4096,
    intermediate_size: 11_008,
    layers: 32,
    heads: 32,
    kv_heads: None,
    head_dim: HeadDim::RoundedDown,
    max_positions: 2048,
    eps: ("rms_norm_eps", 1e-5),
    activation: ("hidden_act", "silu"),
    tied: false,
};

/// The class has no key for it.
const EPS: f64 = 1e-5;

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core { eps: EPS, ..Core::read(config, &DEFAULTS)? };
    let variant = Variant {
        norm: NormStyle::LayerBare,
        attention_bias: attention_bias(config, false)?,
        ..Variant::llama(rope::read(config, &RopeRules::of(&core), FAMILY.model_type, options)?)
    };
    let clip = config.float("clip_qkv")?.optional();
    if let Some(clip) = clip.filter(|&clip| clip < 0.0) {
        return Err(config.error("clip_qkv", format!("is {clip}, below 0")));
    }
    let mut spec = pre_norm(&core, variant, tensors);
    for layer in &mut spec.layers {
        layer.attention.clip = clip;
    }
    Ok(spec)
}

/// `attention_bias`: on all four projections or on none.
pub(crate) fn attention_bias(config: &Config<'_>, default: bool) -> Result<AttentionBias, Error> {
    Ok(if config.flag_or("attention_bias", default)? { AttentionBias::All } else { AttentionBias::None })
}
