//! Apertus: as Llama, with a plain feed-forward part, the xIELU activation, norms of query and key heads, and llama3 RoPE by default.
//!
//! Source: transformers 5.24 `models/apertus`, `activations.py` (`XIELUActivation`).

use serde_json::json;

use crate::config::{Config, Stored};
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, LLAMA, Names, Size, Variant, pre_norm, weight};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{Activation, DecoderSpec, Error, Tensors, Xielu};

pub(crate) const FAMILY: Family = Family {
    model_type: "apertus",
    architecture: "ApertusForCausalLM",
    prefix: "model.",
    summary: "Apertus 8B and 70B",
    refuses: &["qk_norm false", "post_norm true"],
    irrelevant: &[],
    read,
};

pub(crate) const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 131_072,
    hidden_size: 4096,
    intermediate_size: 14_336,
    layers: 32,
    heads: 32,
    kv_heads: None,
    head_dim: HeadDim::RoundedDown,
    max_positions: 65_536,
    eps: ("rms_norm_eps", 1e-5),
    activation: ("hidden_act", "xielu"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    decoder(config, &DEFAULTS, FAMILY.model_type, tensors, options)
}

/// What all Apertus classes compute.
pub(crate) fn decoder(
    config: &Config<'_>,
    defaults: &CoreDefaults,
    model_type: &str,
    tensors: &Tensors<'_>,
    options: &Options,
) -> Result<DecoderSpec, Error> {
    // Not in the common list, since it has parameters: the core is read with another, which the layers below replace.
    let (key, name) = defaults.activation;
    let xielu = config.or_default(key, config.text(key)?, name)? == "xielu";
    let core = Core::read(config, &CoreDefaults { activation: (if xielu { "" } else { key }, "linear"), ..*defaults })?;
    // Of the published configs; the class has no such switches.
    for (key, built) in [("qk_norm", true), ("post_norm", false)] {
        if config.flag(key)? == Stored::Value(!built) {
            return Err(config.error(key, format!("is {}, which this class does not heed", !built)));
        }
    }
    let by_default = json!({
        "rope_type": "llama3", "rope_theta": 12e6, "factor": 8.0, "original_max_position_embeddings": 8192, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    });
    let rules = RopeRules { theta: 12_000_000.0, ..RopeRules::of(&core) };
    let bias = config.flag_or("attention_bias", false)?;
    let variant = Variant {
        names: Names { input_norm: "attention_layernorm", mlp_norm: "feedforward_layernorm", ..LLAMA },
        attention_bias: if bias { AttentionBias::All } else { AttentionBias::None },
        gated: false,
        head_norms: true,
        ..Variant::llama(rope::read_or(config, &by_default, &rules, model_type, options)?)
    };
    let mut spec = pre_norm(&core, variant, tensors);
    for (index, layer) in spec.layers.iter_mut().enumerate().filter(|_| xielu) {
        let one = Size::new(1, "one number");
        let name = |part: &str| format!("model.layers.{index}.mlp.act_fn.{part}");
        layer.mlp.activation = Activation::Xielu(Xielu {
            alpha_p: weight(name("alpha_p"), &[&one]),
            alpha_n: weight(name("alpha_n"), &[&one]),
            beta: weight(name("beta"), &[]),
            eps: weight(name("eps"), &[]),
        });
    }
    Ok(spec)
}
