//! Arcee: as Llama, with a plain feed-forward part.
//!
//! Source: transformers 5.24 `models/arcee`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "arcee",
    architecture: "ArceeForCausalLM",
    prefix: "model.",
    summary: "AFM 4.5B",
    refuses: &[],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 32_000,
    hidden_size: 2560,
    intermediate_size: 18_432,
    layers: 32,
    heads: 32,
    kv_heads: None,
    head_dim: HeadDim::Computed,
    max_positions: 4096,
    eps: ("rms_norm_eps", 1e-5),
    activation: ("hidden_act", "relu2"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let bias = config.flag_or("attention_bias", false)?;
    let variant = Variant {
        attention_bias: if bias { AttentionBias::All } else { AttentionBias::None },
        gated: false,
        mlp_bias: config.flag_or("mlp_bias", false)?,
        ..Variant::llama(rope::read(config, &RopeRules::of(&core), FAMILY.model_type, options)?)
    };
    Ok(pre_norm(&core, variant, tensors))
}
