//! Qwen3, dense: as Qwen2 with a `head_dim` of its own, norms over query and key heads, and biases by flag.
//!
//! Source: transformers 5.24 `models/qwen3`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, Variant, pre_norm};
use crate::qwen2::windows;
use crate::registry::{Family, Options};
use crate::rope::{self, RopeContext};
use crate::{DecoderSpec, Error, Tensors};

pub(crate) const FAMILY: Family =
    Family { model_type: "qwen3", architecture: "Qwen3ForCausalLM", summary: "Qwen3, dense", irrelevant: &[], read };

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 151_936,
    hidden_size: 4096,
    intermediate_size: 22_016,
    layers: 32,
    heads: 32,
    kv_heads: Some(32),
    head_dim: HeadDim::Default(128),
    max_positions: 32_768,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let bias = config.or_default("attention_bias", config.flag("attention_bias")?, false)?;
    let variant = Variant {
        attention_bias: if bias { AttentionBias::All } else { AttentionBias::None },
        mlp_bias: false,
        head_norms: true,
        windows: windows(config, core.layers)?,
        rope: rope::read(config, &RopeContext::of(&core, FAMILY.model_type, options))?,
    };
    Ok(pre_norm(&core, variant, tensors))
}
