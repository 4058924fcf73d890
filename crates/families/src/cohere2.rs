//! Command R7B and Command A: as Cohere, with windows on three layers of four; only layers with a window are rotated.
//!
//! Source: transformers 5.24 `models/cohere2`.

use crate::cohere::{DEFAULTS, NAMES};
use crate::config::Config;
use crate::names::{Core, NormStyle, Variant, pre_norm};
use crate::olmo::attention_bias;
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::windows::{self, sliding_layers};
use crate::{Arrangement, DecoderSpec, Error, Pairing, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "cohere2",
    architecture: "Cohere2ForCausalLM",
    prefix: "model.",
    summary: "Command R7B and Command A",
    refuses: &[],
    irrelevant: &[
        "cache_implementation",
        "layer_switch",
        "order_of_interleaved_layers",
        "position_embedding_type",
        "rotary_pct",
        "use_embedding_sharing",
        "use_gated_activation",
        "use_parallel_block",
        "use_parallel_embedding",
    ],
    read,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let rules = RopeRules { pairing: Pairing::Interleaved, ..RopeRules::of(&core) };
    let pattern = config.size_or("sliding_window_pattern", 4)?;
    let slides = sliding_layers(config, core.layers, |layer| !(layer + 1).is_multiple_of(pattern))?;
    let rope = match slides.contains(&true) {
        true => Some(rope::read(config, &rules, FAMILY.model_type, options)?),
        false => rope::pass_over(config).map(|()| None)?,
    };
    let variant = Variant {
        names: NAMES,
        norm: NormStyle::LayerNoBias,
        attention_bias: attention_bias(config, false)?,
        windows: windows::windows(config, &slides, windows::width(config, Some(4096))?)?,
        ..Variant::llama(rope)
    };
    let mut spec = pre_norm(&core, variant, tensors);
    spec.head.scale = config.float_or("logit_scale", 0.0625)?;
    for (layer, slides) in spec.layers.iter_mut().zip(slides) {
        layer.arrangement = Arrangement::Parallel;
        layer.attention.rope = slides.then_some(0);
    }
    Ok(spec)
}
