//! Seed-OSS: as Llama, with a flag of its own for the bias of attention's output.
//!
//! Source: transformers 5.24 `models/seed_oss`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "seed_oss",
    architecture: "SeedOssForCausalLM",
    prefix: "model.",
    summary: "Seed-OSS 36B",
    refuses: &[],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 155_136,
    hidden_size: 4096,
    intermediate_size: 27_648,
    layers: 64,
    heads: 80,
    kv_heads: Some(8),
    head_dim: HeadDim::DefaultOrQuotient(128),
    max_positions: 524_288,
    eps: ("rms_norm_eps", 1e-6),
    activation: ("hidden_act", "silu"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let attention_bias = match (config.flag_or("attention_bias", true)?, config.flag_or("attention_out_bias", false)?) {
        (false, false) => AttentionBias::None,
        (true, false) => AttentionBias::QueryKeyValue,
        (true, true) => AttentionBias::All,
        (false, true) => AttentionBias::Output,
    };
    let variant = Variant {
        attention_bias,
        mlp_bias: config.flag_or("mlp_bias", false)?,
        ..Variant::llama(rope::read(config, &RopeRules::of(&core), FAMILY.model_type, options)?)
    };
    Ok(pre_norm(&core, variant, tensors))
}
