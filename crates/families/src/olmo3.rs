//! OLMo 3: as OLMo 2, with windows on three layers of four and a rotation for each kind of layer.
//!
//! Source: transformers 5.24 `models/olmo3`.

use crate::config::Config;
use crate::names::{Core, Variant, pre_norm};
use crate::olmo::{self, attention_bias};
use crate::olmo2::{NAMES, norms_after, norms_over_all_heads};
use crate::registry::{Family, Options};
use crate::rope::{self, Outer, RopeRules};
use crate::windows::{self, sliding_layers};
use crate::{DecoderSpec, Error, Rope, Tensors};

pub(crate) const FAMILY: Family =
    Family { model_type: "olmo3", architecture: "Olmo3ForCausalLM", prefix: "model.", summary: "OLMo 3 7B and 32B", irrelevant: &[], read };

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &olmo::DEFAULTS)?;
    let slides = sliding_layers(config, core.layers, |layer| (layer + 1) % 4 != 0)?;
    let [full, sliding] = ropes(config, &core, options)?;
    let variant = Variant {
        names: NAMES,
        attention_bias: attention_bias(config, false)?,
        windows: windows::windows(config, &slides, windows::width(config, Some(4096))?)?,
        ..Variant::llama(full)
    };
    let mut spec = pre_norm(&core, variant, tensors);
    spec.ropes.push(sliding);
    for (layer, slides) in spec.layers.iter_mut().zip(slides) {
        layer.attention.rope = Some(usize::from(slides));
    }
    norms_after(&mut spec);
    norms_over_all_heads(&mut spec, &core);
    Ok(spec)
}

/// Of the layers that see everything, and of those that slide.
fn ropes(config: &Config<'_>, core: &Core, options: &Options) -> Result<[Rope; 2], Error> {
    let rules = RopeRules { theta: 500_000.0, ..RopeRules::of(core) };
    let default = || rope::resolve(config, None, &Outer::default(), &rules, FAMILY.model_type, options);
    let types = [
        ("full_attention", "rope_parameters.full_attention.", &rules),
        ("sliding_attention", "rope_parameters.sliding_attention.", &rules),
    ];
    if let Some([full, sliding]) = rope::read_by_type(config, types, FAMILY.model_type, options)? {
        // Null is the class default here, not absence of a rotation.
        return Ok([full.map_or_else(default, Ok)?, sliding.map_or_else(default, Ok)?]);
    }
    // The v4 layout: its keys hold for the layers that see everything; the class gives the others its default.
    Ok([rope::read(config, &rules, FAMILY.model_type, options)?, default()?])
}
