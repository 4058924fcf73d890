//! OLMo 3: as OLMo 2, with windows on three layers of four and a rotation for each kind of layer.
//!
//! Source: transformers 5.24 `models/olmo3`.

use crate::config::{Config, Stored};
use crate::names::{Core, Variant, pre_norm};
use crate::olmo::{self, attention_bias};
use crate::olmo2::{NAMES, norms_after, norms_over_all_heads};
use crate::registry::{Family, Options};
use crate::rope::{self, Outer, RopeRules};
use crate::windows::{self, sliding_layers};
use crate::{DecoderSpec, Error, Rope, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "olmo3",
    architecture: "Olmo3ForCausalLM",
    prefix: "model.",
    summary: "OLMo 3 7B and 32B",
    refuses: &["yarn with truncate false"],
    irrelevant: &[],
    read,
};

/// The class default of `rope_theta`.
const THETA: f64 = 500_000.0;

/// Keys of one rotation, which have no effect beside those of two.
const FLAT: &[&str] = &[
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "factor",
    "high_freq_factor",
    "long_factor",
    "low_freq_factor",
    "mscale",
    "mscale_all_dim",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "rope_theta",
    "rope_type",
    "short_factor",
    "truncate",
    "type",
];

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
///
/// `rope_parameters` holds an object for each, and the class default stands in for one that is missing; keys of a single rotation there are
/// not looked at. Of the v4 layout, both keys hold for the layers that see everything, and the others get the class default.
fn ropes(config: &Config<'_>, core: &Core, options: &Options) -> Result<[Rope; 2], Error> {
    let rules = RopeRules { theta: THETA, ..RopeRules::of(core) };
    let outer = Outer { theta: config.not_null("rope_theta", config.float("rope_theta")?)?, ..Outer::default() };
    let resolve = |object: Option<Config<'_>>, outer: &Outer| {
        if let Some(object) = &object {
            // transformers looks for it one object further out, and never finds it.
            heeds_truncate(object)?;
        }
        rope::resolve(config, object, outer, &rules, FAMILY.model_type, options)
    };
    let parameters = config.object("rope_parameters", "rope_parameters.")?.optional();
    let scaling = config.object("rope_scaling", "rope_scaling.")?.optional();
    match (parameters, scaling) {
        (Some(_), Some(_)) => Err(config.error("rope_scaling", "stands beside `rope_parameters`: one of the two must go")),
        (None, None) => Ok([resolve(None, &outer)?, resolve(None, &Outer::default())?]),
        (None, Some(scaling)) => {
            // transformers adds these to its own object for one kind of layer, where nobody looks for kinds.
            scaling.object("full_attention", "rope_scaling.full_attention.")?;
            scaling.object("sliding_attention", "rope_scaling.sliding_attention.")?;
            let full = match scaling.text("rope_type")? {
                Stored::Value(_) => resolve(Some(scaling), &outer)?,
                // The class looks for the type under this name only, and rotates plainly without it.
                Stored::Absent | Stored::Null => {
                    let theta = scaling.float("rope_theta")?.optional().or(outer.theta);
                    scaling.finish(FAMILY.model_type, FLAT, &options.allow_unknown_config)?;
                    resolve(None, &Outer { theta, ..Outer::default() })?
                }
            };
            Ok([full, resolve(None, &Outer::default())?])
        }
        (Some(parameters), None) => {
            let full = parameters.object("full_attention", "rope_parameters.full_attention.")?.optional();
            let sliding = parameters.object("sliding_attention", "rope_parameters.sliding_attention.")?.optional();
            let yarn = |object: &Config<'_>| object.text("rope_type") == Ok(Stored::Value("yarn"));
            if full.iter().chain(&sliding).any(yarn) {
                heeds_truncate(&parameters)?;
            }
            parameters.finish(FAMILY.model_type, FLAT, &options.allow_unknown_config)?;
            Ok([resolve(full, &outer)?, resolve(sliding, &Outer::default())?])
        }
    }
}

fn heeds_truncate(object: &Config<'_>) -> Result<(), Error> {
    match object.flag("truncate")? {
        Stored::Value(false) => Err(object.error("truncate", "is false, which transformers does not heed where layers rotate by type")),
        _ => Ok(()),
    }
}
