//! Jais 2: as Llama, with layer norms, a plain feed-forward part, and biases unless a flag takes them away.
//!
//! Source: transformers 5.24 `models/jais2`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, NormStyle, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "jais2",
    architecture: "Jais2ForCausalLM",
    prefix: "model.",
    summary: "Jais 2 8B and 70B",
    refuses: &[],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 150_272,
    hidden_size: 3328,
    intermediate_size: 26_624,
    layers: 32,
    heads: 26,
    kv_heads: None,
    head_dim: HeadDim::Computed,
    max_positions: 8192,
    eps: ("layer_norm_eps", 1e-5),
    activation: ("hidden_act", "relu2"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let bias = config.flag_or("attention_bias", true)?;
    let variant = Variant {
        norm: NormStyle::Layer,
        attention_bias: if bias { AttentionBias::All } else { AttentionBias::None },
        gated: false,
        mlp_bias: config.flag_or("mlp_bias", true)?,
        ..Variant::llama(rope::read(config, &RopeRules::of(&core), FAMILY.model_type, options)?)
    };
    Ok(pre_norm(&core, variant, tensors))
}
