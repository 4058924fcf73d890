//! SmolLM3: as Llama, with layers that do not rotate, and windows where `use_sliding_window` says so.
//!
//! `no_rope_layers` holds 1 for the layers that *do* rotate. `layer_types` that name sliding layers make them slide whatever
//! `use_sliding_window` says: the class hands them the mask by type.
//! Source: transformers 5.24 `models/smollm3`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, Outer, RopeRules};
use crate::{DecoderSpec, Error, Tensors, windows};

pub(crate) const FAMILY: Family = Family {
    model_type: "smollm3",
    architecture: "SmolLM3ForCausalLM",
    prefix: "model.",
    summary: "SmolLM3 3B",
    refuses: &[],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 128_256,
    hidden_size: 2048,
    intermediate_size: 11_008,
    layers: 36,
    heads: 16,
    kv_heads: Some(4),
    head_dim: HeadDim::RoundedDown,
    max_positions: 32_768,
    eps: ("rms_norm_eps", 1e-6),
    activation: ("hidden_act", "silu"),
    tied: true,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let rotates = rotating_layers(config, core.layers)?;
    let on = config.flag_or("use_sliding_window", false)?;
    let window = windows::width(config, None)?;
    let slides = windows::sliding_layers(config, core.layers, |layer| on && window.is_some() && !rotates[layer as usize])?;
    let rules = RopeRules { theta: 2_000_000.0, ..RopeRules::of(&core) };
    let rope = match rotates.contains(&true) {
        true => Some(rope::read(config, &rules, FAMILY.model_type, options)?),
        // Whatever the keys say has no effect.
        false => Outer::read(config, &rules).and(rope::object(config)).map(|_| None)?,
    };
    let bias = config.flag_or("attention_bias", false)?;
    let variant = Variant {
        attention_bias: if bias { AttentionBias::All } else { AttentionBias::None },
        mlp_bias: config.flag_or("mlp_bias", false)?,
        windows: windows::windows(config, &slides, window)?,
        ..Variant::llama(None)
    };
    let mut spec = pre_norm(&core, variant, tensors);
    rope::by_layer(&mut spec, rotates.iter().map(|&rotates| rope.clone().filter(|_| rotates)));
    Ok(spec)
}

/// From `no_rope_layers`, else all but every `no_rope_layer_interval`-th.
fn rotating_layers(config: &Config<'_>, layers: u64) -> Result<Vec<bool>, Error> {
    let (key, interval) = ("no_rope_layers", config.size_or("no_rope_layer_interval", 4)?);
    let Some(list) = config.list(key)?.optional() else {
        return Ok((1..=layers).map(|layer| !layer.is_multiple_of(interval)).collect());
    };
    if list.len() as u64 != layers {
        return Err(config.error(key, format!("has {} entries; num_hidden_layers is {layers}", list.len())));
    }
    let rotates = |entry: &serde_json::Value| match entry.as_u64() {
        Some(rotates @ (0 | 1)) => Ok(rotates == 1),
        _ => Err(config.error(key, format!("holds {entry}, where 0 or 1 is needed"))),
    };
    list.iter().map(rotates).collect()
}
