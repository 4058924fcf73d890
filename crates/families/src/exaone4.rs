//! EXAONE 4.0: norms after each block instead of before, norms over query and key heads, windows on three layers of four; where the
//! config has windows, only layers with one are rotated.
//!
//! Source: transformers 5.24 `models/exaone4`.

use crate::config::Config;
use crate::names::{Core, CoreDefaults, HeadDim, Variant, pre_norm};
use crate::olmo2::{NAMES, norms_after};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::windows::{self, sliding_layers};
use crate::{DecoderSpec, Error, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "exaone4",
    architecture: "Exaone4ForCausalLM",
    prefix: "model.",
    summary: "EXAONE 4.0 1.2B and 32B",
    // Of no effect beside `layer_types`.
    refuses: &["no layer_types where there is no window"],
    irrelevant: &["sliding_window_pattern"],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 102_400,
    hidden_size: 4096,
    intermediate_size: 16_384,
    layers: 32,
    heads: 32,
    kv_heads: Some(32),
    head_dim: HeadDim::RoundedDown,
    max_positions: 2048,
    eps: ("rms_norm_eps", 1e-5),
    activation: ("hidden_act", "silu"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let window = windows::width(config, Some(4096))?;
    let pattern = match (config.list("layer_types")?.optional(), window) {
        (Some(_), _) => 1,
        (None, Some(_)) => config.size_or("sliding_window_pattern", 4)?,
        (None, None) => return Err(config.error("layer_types", "is missing, which transformers refuses where sliding_window is null")),
    };
    let slides = sliding_layers(config, core.layers, |layer| !(layer + 1).is_multiple_of(pattern))?;
    let rope = match window.is_none() || slides.contains(&true) {
        true => Some(rope::read(config, &RopeRules::of(&core), FAMILY.model_type, options)?),
        false => rope::pass_over(config).map(|()| None)?,
    };
    let windows = windows::windows(config, &slides, window)?;
    let variant = Variant { names: NAMES, head_norms: true, windows, ..Variant::llama(rope) };
    let mut spec = pre_norm(&core, variant, tensors);
    norms_after(&mut spec);
    for (layer, slides) in spec.layers.iter_mut().zip(slides) {
        layer.attention.rope = (window.is_none() || slides).then_some(0);
    }
    Ok(spec)
}
