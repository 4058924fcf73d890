//! Granite with sliding windows: as Granite, with sinks, a window on three layers of four, and a RoPE base for each layer.
//!
//! Source: transformers 5.24 `models/granite_swa`. Its sinks scale what attention gives by `sigmoid(logsumexp(scores) − sink)`, which is
//! softmax with one score more.

use crate::config::Config;
use crate::names::{Core, CoreDefaults, HeadDim, Size, Variant, weight};
use crate::registry::{Family, Options};
use crate::rope::{self, Outer, RopeRules};
use crate::{DecoderSpec, Error, Rope, Tensors, granite, windows};

pub(crate) const FAMILY: Family = Family {
    model_type: "granite_swa",
    architecture: "GraniteSWAForCausalLM",
    prefix: "model.",
    summary: "Granite with sliding windows and sinks",
    refuses: &[],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 100_352,
    hidden_size: 2560,
    intermediate_size: 8192,
    layers: 24,
    heads: 20,
    kv_heads: Some(4),
    head_dim: HeadDim::RoundedDown,
    max_positions: 8192,
    eps: ("rms_norm_eps", 1e-5),
    activation: ("hidden_act", "silu"),
    tied: true,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let slides = windows::sliding_layers(config, core.layers, |layer| layer % 4 != 0)?;
    let ropes = ropes(config, &core, options)?;
    let variant = Variant { windows: windows::windows(config, &slides, windows::width(config, Some(128))?)?, ..Variant::llama(None) };
    let mut spec = granite::multiplied(config, &core, config.float_or("attention_multiplier", 1.0)?, variant, tensors)?;
    rope::by_layer(&mut spec, ropes);
    let heads = Size::new(core.heads, format!("num_attention_heads {}", core.heads));
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        layer.attention.sinks = Some(weight(format!("model.layers.{index}.self_attn.sinks"), &[&heads]));
    }
    Ok(spec)
}

/// The rotation of each layer: `layer_rope_theta` holds bases, 0 where a layer does not rotate.
fn ropes(config: &Config<'_>, core: &Core, options: &Options) -> Result<Vec<Option<Rope>>, Error> {
    let key = "layer_rope_theta";
    let rules = RopeRules::of(core);
    let Some(thetas) = config.list(key)?.optional() else {
        return Ok(vec![Some(rope::read(config, &rules, FAMILY.model_type, options)?); core.layers as usize]);
    };
    if thetas.len() as u64 != core.layers {
        return Err(config.error(key, format!("has {} entries; num_hidden_layers is {}", thetas.len(), core.layers)));
    }
    let outer = Outer::read(config, &rules)?;
    rope::object(config)?;
    let one = |theta: &serde_json::Value| match theta.as_f64() {
        Some(0.0) => Ok(None),
        Some(theta) => {
            let outer = Outer { layer_theta: Some(theta), ..outer };
            rope::resolve(config, rope::object(config)?, &outer, &rules, FAMILY.model_type, options).map(Some)
        }
        None => Err(config.error(key, format!("holds {theta}, where numbers are needed"))),
    };
    thetas.iter().map(one).collect()
}
