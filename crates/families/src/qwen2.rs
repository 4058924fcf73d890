//! Qwen2 and Qwen2.5: pre-norm, grouped queries, biases on query, key and value without a flag, windows on the layers from
//! `max_window_layers` on where `use_sliding_window` says so.
//!
//! Source: transformers 5.24 `models/qwen2`.

use serde_json::Value;

use crate::config::{Config, Stored};
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeContext};
use crate::{DecoderSpec, Error, Tensors};

pub(crate) const FAMILY: Family =
    Family { model_type: "qwen2", architecture: "Qwen2ForCausalLM", summary: "Qwen2 and Qwen2.5, dense", irrelevant: &[], read };

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 151_936,
    hidden_size: 4096,
    intermediate_size: 22_016,
    layers: 32,
    heads: 32,
    kv_heads: Some(32),
    head_dim: HeadDim::Computed,
    max_positions: 32_768,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let variant = Variant {
        attention_bias: AttentionBias::QueryKeyValue,
        mlp_bias: false,
        head_norms: false,
        windows: windows(config, core.layers)?,
        rope: rope::read(config, &RopeContext::of(&core, FAMILY.model_type, options))?,
    };
    Ok(pre_norm(&core, variant, tensors))
}

/// The window of each layer: by `layer_types` where given, else from layer `max_window_layers` on.
pub(crate) fn windows(config: &Config<'_>, layers: u64) -> Result<Vec<Option<u64>>, Error> {
    let on = config.or_default("use_sliding_window", config.flag("use_sliding_window")?, false)?;
    let declared = match config.size("sliding_window")? {
        Stored::Value(window) => Some(window),
        Stored::Null => None,
        Stored::Absent => Some(4096),
    };
    let window = declared.filter(|_| on);
    let first = config.or_default("max_window_layers", config.count("max_window_layers")?, 28)?;
    let Some(types) = config.list("layer_types")?.optional() else {
        return Ok((0..layers).map(|layer| window.filter(|_| layer >= first)).collect());
    };
    if types.len() as u64 != layers {
        return Err(config.error("layer_types", format!("has {} entries; num_hidden_layers is {layers}", types.len())));
    }
    let one = |kind: &Value| match kind.as_str() {
        Some("full_attention") => Ok(None),
        Some("sliding_attention") if window.is_some() => Ok(window),
        Some("sliding_attention") => {
            Err(config.error("layer_types", "names `sliding_attention`, but use_sliding_window and sliding_window give no window"))
        }
        _ => Err(config.error("layer_types", format!("names {kind}; supported: full_attention, sliding_attention"))),
    };
    types.iter().map(one).collect()
}
