//! Qwen2 and Qwen2.5: pre-norm, grouped queries, biases on query, key and value without a flag, windows on the layers from
//! `max_window_layers` on where `use_sliding_window` says so.
//!
//! Source: transformers 5.24 `models/qwen2`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::windows::{self, sliding_layers};
use crate::{DecoderSpec, Error, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "qwen2",
    architecture: "Qwen2ForCausalLM",
    prefix: "model.",
    summary: "Qwen2 and Qwen2.5, dense",
    refuses: &[],
    irrelevant: &[],
    read,
};

pub(crate) const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 151_936,
    hidden_size: 4096,
    intermediate_size: 22_016,
    layers: 32,
    heads: 32,
    kv_heads: Some(32),
    head_dim: HeadDim::Computed,
    max_positions: 32_768,
    eps: ("rms_norm_eps", 1e-6),
    activation: ("hidden_act", "silu"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let variant = Variant {
        attention_bias: AttentionBias::QueryKeyValue,
        windows: windows_from_layer(config, core.layers)?,
        ..Variant::llama(rope::read(config, &RopeRules::of(&core), FAMILY.model_type, options)?)
    };
    Ok(pre_norm(&core, variant, tensors))
}

/// The window of each layer: by `layer_types` where given, else from layer `max_window_layers` on.
pub(crate) fn windows_from_layer(config: &Config<'_>, layers: u64) -> Result<Vec<Option<u64>>, Error> {
    let on = config.flag_or("use_sliding_window", false)?;
    let window = windows::width(config, Some(4096))?.filter(|_| on);
    let first = config.or_default("max_window_layers", config.count("max_window_layers")?, 28)?;
    let slides = sliding_layers(config, layers, |layer| window.is_some() && layer >= first)?;
    windows::windows(config, &slides, window)
}
