//! GLM-4 9B: one matrix for gate and up, biases on query, key and value by flag, part of each head rotated in interleaved pairs.
//!
//! Source: transformers 5.24 `models/glm`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, Variant, pre_norm};
use crate::phi3::fuse_gates;
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Pairing, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "glm",
    architecture: "GlmForCausalLM",
    prefix: "model.",
    summary: "GLM-4 9B, GLM-Edge",
    refuses: &[],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 151_552,
    hidden_size: 4096,
    intermediate_size: 13_696,
    layers: 40,
    heads: 32,
    kv_heads: Some(2),
    head_dim: HeadDim::Default(128),
    max_positions: 131_072,
    eps: ("rms_norm_eps", 1.5625e-7),
    activation: ("hidden_act", "silu"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    Ok(decoder(config, tensors, options, FAMILY.model_type)?.0)
}

/// The decoder, and its sizes.
pub(crate) fn decoder(
    config: &Config<'_>,
    tensors: &Tensors<'_>,
    options: &Options,
    model_type: &str,
) -> Result<(DecoderSpec, Core), Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let rules = RopeRules { partial: Some(0.5), pairing: Pairing::Interleaved, ..RopeRules::of(&core) };
    let bias = config.flag_or("attention_bias", true)?;
    let variant = Variant {
        attention_bias: if bias { AttentionBias::QueryKeyValue } else { AttentionBias::None },
        ..Variant::llama(rope::read(config, &rules, model_type, options)?)
    };
    let mut spec = pre_norm(&core, variant, tensors);
    fuse_gates(&mut spec, &core);
    Ok((spec, core))
}
