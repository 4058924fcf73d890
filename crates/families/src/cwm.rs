//! CWM: as Llama without biases of attention, with windows on three layers of four and llama3 RoPE by default.
//!
//! Source: transformers 5.24 `models/cwm`.

use serde_json::json;

use crate::config::Config;
use crate::names::{Core, CoreDefaults, HeadDim, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Tensors, windows};

pub(crate) const FAMILY: Family = Family {
    model_type: "cwm",
    architecture: "CwmForCausalLM",
    prefix: "model.",
    summary: "Code World Model 32B",
    refuses: &[],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 128_256,
    hidden_size: 6144,
    intermediate_size: 21_504,
    layers: 64,
    heads: 48,
    kv_heads: Some(8),
    head_dim: HeadDim::Default(128),
    max_positions: 131_072,
    eps: ("rms_norm_eps", 1e-5),
    activation: ("hidden_act", "silu"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let slides = windows::sliding_layers(config, core.layers, |layer| layer % 4 != 0)?;
    let by_default = json!({
        "rope_type": "llama3", "rope_theta": 1e6, "factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
    });
    let rules = RopeRules { theta: 1_000_000.0, ..RopeRules::of(&core) };
    let variant = Variant {
        mlp_bias: config.flag_or("mlp_bias", false)?,
        windows: windows::windows(config, &slides, windows::width(config, Some(8192))?)?,
        ..Variant::llama(rope::read_or(config, &by_default, &rules, FAMILY.model_type, options)?)
    };
    Ok(pre_norm(&core, variant, tensors))
}
