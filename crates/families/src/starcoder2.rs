//! StarCoder2: layer norms, a plain feed-forward part, biases everywhere by flag, a window on every layer where the config has one.
//!
//! Source: transformers 5.24 `models/starcoder2`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, LLAMA, Names, NormStyle, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Tensors, windows};

pub(crate) const FAMILY: Family = Family {
    model_type: "starcoder2",
    architecture: "Starcoder2ForCausalLM",
    prefix: "model.",
    summary: "StarCoder2 3B, 7B, 15B",
    refuses: &[],
    irrelevant: &["mlp_type", "norm_type"],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 49_152,
    hidden_size: 3072,
    intermediate_size: 12_288,
    layers: 30,
    heads: 24,
    kv_heads: Some(2),
    head_dim: HeadDim::RoundedDown,
    max_positions: 4096,
    eps: ("norm_epsilon", 1e-5),
    activation: ("hidden_act", "gelu_pytorch_tanh"),
    tied: true,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let bias = config.flag_or("use_bias", true)?;
    let variant = Variant {
        names: Names { feed_forward: ["", "c_fc", "c_proj"], ..LLAMA },
        norm: NormStyle::Layer,
        attention_bias: if bias { AttentionBias::All } else { AttentionBias::None },
        gated: false,
        mlp_bias: bias,
        windows: vec![windows::width(config, None)?; core.layers as usize],
        ..Variant::llama(rope::read(config, &RopeRules::of(&core), FAMILY.model_type, options)?)
    };
    Ok(pre_norm(&core, variant, tensors))
}
