//! Llama 2 and 3.x, SmolLM2, TinyLlama: pre-norm, grouped queries, gated feed-forward part, biases by flag.
//!
//! Source: transformers 5.24 `models/llama`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, LLAMA, Names, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "llama",
    architecture: "LlamaForCausalLM",
    prefix: "model.",
    summary: "Llama 2 and 3.x, SmolLM2, TinyLlama and their descendants",
    refuses: &[],
    irrelevant: &[],
    read,
};

pub(crate) const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 32_000,
    hidden_size: 4096,
    intermediate_size: 11_008,
    layers: 32,
    heads: 32,
    kv_heads: None,
    head_dim: HeadDim::Computed,
    max_positions: 2048,
    eps: ("rms_norm_eps", 1e-6),
    activation: ("hidden_act", "silu"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    decoder(config, &DEFAULTS, Keys::default(), FAMILY.model_type, tensors, options)
}

/// What differs between the model types that transformers computes with this class.
pub(crate) struct Keys {
    pub(crate) names: Names,
    /// Where `rope_theta` is absent.
    pub(crate) theta: f64,
    /// Flags of the biases of attention and of the feed-forward part.
    pub(crate) biases: [&'static str; 2],
}

impl Default for Keys {
    fn default() -> Self {
        Self { names: LLAMA, theta: 10_000.0, biases: ["attention_bias", "mlp_bias"] }
    }
}

/// What this class computes.
pub(crate) fn decoder(
    config: &Config<'_>,
    defaults: &CoreDefaults,
    keys: Keys,
    model_type: &str,
    tensors: &Tensors<'_>,
    options: &Options,
) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, defaults)?;
    let [attention_bias, mlp_bias] = keys.biases;
    let bias = config.flag_or(attention_bias, false)?;
    let rules = RopeRules { theta: keys.theta, ..RopeRules::of(&core) };
    let variant = Variant {
        names: keys.names,
        attention_bias: if bias { AttentionBias::All } else { AttentionBias::None },
        mlp_bias: config.flag_or(mlp_bias, false)?,
        ..Variant::llama(rope::read(config, &rules, model_type, options)?)
    };
    Ok(pre_norm(&core, variant, tensors))
}
