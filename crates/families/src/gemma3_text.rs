//! Gemma 3, text only: as Gemma 2, with norms of query and key heads, and a rotation of their own for layers that slide.
//!
//! `attn_logit_softcapping` has no effect: the class reads it and does not hand it to attention.
//! Source: transformers 5.24 `models/gemma3` (`Gemma3ForCausalLM`).

use crate::config::{Config, Stored};
use crate::gemma2::{add_output_norms, cap, query_scale};
use crate::names::{Core, CoreDefaults, LLAMA, Names, Variant};
use crate::registry::{Family, Options};
use crate::rope::{self, Outer, RopeRules};
use crate::{DecoderSpec, Error, Rope, Tensors, gemma, gemma2, windows};

pub(crate) const FAMILY: Family = Family {
    model_type: "gemma3_text",
    architecture: "Gemma3ForCausalLM",
    prefix: "model.",
    summary: "Gemma 3 270M and 1B, and the text part of larger ones",
    refuses: &["rope_parameters that are not by layer type", "use_bidirectional_attention"],
    irrelevant: &["_sliding_window_pattern", "attn_logit_softcapping", "hidden_act"],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults { vocab_size: 262_208, max_positions: 131_072, ..gemma2::DEFAULTS };

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let [full, local] = ropes(config, &core, options)?;
    let pattern = config.size_or("sliding_window_pattern", 6)?;
    let slides = windows::sliding_layers(config, core.layers, |layer| !(layer + 1).is_multiple_of(pattern))?;
    let variant = Variant {
        windows: windows::windows(config, &slides, windows::width(config, Some(4096))?)?,
        names: Names { mlp_norm: "pre_feedforward_layernorm", ..LLAMA },
        head_norms: true,
        ..Variant::llama(None)
    };
    let mut spec = gemma::scaled(config, &core, variant, tensors)?;
    let scale = query_scale(config)?;
    for layer in &mut spec.layers {
        layer.attention.scale = scale;
    }
    rope::by_layer(&mut spec, slides.iter().map(|&slides| Some(if slides { local.clone() } else { full.clone() })));
    add_output_norms(&core, &mut spec);
    spec.head.softcap = cap(config, "final_logit_softcapping", None)?;
    Ok(spec)
}

/// Of layers that see everything, and of those that slide.
fn ropes(config: &Config<'_>, core: &Core, options: &Options) -> Result<[Rope; 2], Error> {
    let full = RopeRules { theta: 1_000_000.0, ..RopeRules::of(core) };
    let local = RopeRules::of(core);
    let plain = |rules: &RopeRules, theta: Option<f64>| {
        rope::resolve(config, None, &Outer { theta, ..Outer::default() }, rules, FAMILY.model_type, options)
    };
    let types =
        [("full_attention", "rope_parameters.full_attention.", &full), ("sliding_attention", "rope_parameters.sliding_attention.", &local)];
    if let Some([by_full, by_local]) = rope::read_by_type(config, types, FAMILY.model_type, options)? {
        // `null` is no rotation elsewhere; this class puts its default there.
        return Ok([by_full.map_or_else(|| plain(&full, None), Ok)?, by_local.map_or_else(|| plain(&local, None), Ok)?]);
    }
    let theta = |key: &'static str| config.not_null(key, config.float(key)?);
    let local = plain(&local, theta("rope_local_base_freq")?)?;
    let outer = Outer { theta: theta("rope_theta")?, ..Outer::default() };
    let scaling = config.object("rope_scaling", "rope_scaling.")?.optional();
    if let Some(scaling) = &scaling
        && scaling.text("rope_type")? == Stored::Absent
        && scaling.text("type")? != Stored::Absent
    {
        return Err(scaling.error("type", "is not heeded by this class, which reads `rope_type`"));
    }
    Ok([rope::resolve(config, scaling, &outer, &full, FAMILY.model_type, options)?, local])
}
