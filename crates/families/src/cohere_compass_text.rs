//! The language model of Cohere Compass: as Cohere 2, rotated in halves, with a rotation or none for each kind of layer.
//!
//! Source: transformers 5.24 `models/cohere_compass` (`CohereCompassForCausalLM`). Its three axes of positions are equal for text, so that
//! the sections of `mrope_section` rotate alike.

use crate::cohere::{DEFAULTS, NAMES};
use crate::config::{Config, Stored};
use crate::names::{Core, NormStyle, Variant, pre_norm};
use crate::olmo::attention_bias;
use crate::registry::{Family, Options};
use crate::rope::{self, Outer, RopeRules};
use crate::windows::{self, sliding_layers};
use crate::{Arrangement, DecoderSpec, Error, Rope, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "cohere_compass_text",
    architecture: "CohereCompassForCausalLM",
    prefix: "model.",
    summary: "Cohere Compass, the text model alone",
    refuses: &["rotations that are not by layer type"],
    irrelevant: &["pooling", "sliding_window_pattern"],
    read,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let slides = sliding_layers(config, core.layers, |_| false)?;
    let parameters = config.object("rope_parameters", "rope_parameters.")?.optional();
    let parameters = parameters.ok_or_else(|| config.error("rope_parameters", "is missing: the class has no default"))?;
    let mut variant = Variant {
        names: NAMES,
        norm: NormStyle::LayerNoBias,
        attention_bias: attention_bias(config, false)?,
        windows: windows::windows(config, &slides, windows::width(config, Some(4096))?)?,
        ..Variant::llama(None)
    };
    let mut ropes = [None; 2];
    for (index, kind) in ropes.iter_mut().zip(KINDS) {
        if let Some(rope) = rotation(&parameters, kind, slides.contains(&kind.slides), &core, options)? {
            *index = Some(variant.ropes.len());
            variant.ropes.push(rope);
        }
    }
    // transformers drops both where it finds an object for a kind of layer.
    parameters.finish(FAMILY.model_type, &["rope_theta", "rope_type"], &options.allow_unknown_config)?;
    let mut spec = pre_norm(&core, variant, tensors);
    spec.head.scale = config.float("logit_scale")?.optional().unwrap_or(1.0);
    for (layer, slides) in spec.layers.iter_mut().zip(slides) {
        layer.arrangement = Arrangement::Parallel;
        layer.attention.rope = ropes[usize::from(slides)];
    }
    Ok(spec)
}

#[derive(Clone, Copy)]
struct Kind {
    slides: bool,
    key: &'static str,
    path: &'static str,
}

const KINDS: [Kind; 2] = [
    Kind { slides: false, key: "full_attention", path: "rope_parameters.full_attention." },
    Kind { slides: true, key: "sliding_attention", path: "rope_parameters.sliding_attention." },
];

/// The rotation of the layers of one kind, where there are any and they rotate.
fn rotation(parameters: &Config<'_>, kind: Kind, used: bool, core: &Core, options: &Options) -> Result<Option<Rope>, Error> {
    let object = match parameters.object(kind.key, kind.path)? {
        _ if !used => return Ok(None),
        Stored::Null => return Ok(None),
        Stored::Absent => return Err(parameters.error(kind.key, "is missing: the class has no default")),
        Stored::Value(object) => object,
    };
    if let Stored::Absent | Stored::Null = object.float("rope_theta")? {
        return Err(object.error("rope_theta", "is missing: the class has no default"));
    }
    object.list("mrope_section")?;
    object.flag("mrope_interleaved")?;
    rope::resolve(parameters, Some(object), &Outer::default(), &RopeRules::of(core), FAMILY.model_type, options).map(Some)
}
