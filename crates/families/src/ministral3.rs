//! Ministral 3 and Mistral Large 3's dense kin: as Mistral, with YaRN by default and queries that grow with their position.
//!
//! Source: transformers 5.24 `models/ministral3`.

use serde_json::json;

use crate::config::Config;
use crate::names::{Core, CoreDefaults, HeadDim, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, Outer, RopeRules};
use crate::{DecoderSpec, Error, PositionScale, Rope, Tensors, mistral, windows};

pub(crate) const FAMILY: Family = Family {
    model_type: "ministral3",
    architecture: "Ministral3ForCausalLM",
    prefix: "model.",
    summary: "Ministral 3, text only",
    refuses: &["no llama_4_scaling_beta"],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 131_072,
    layers: 34,
    head_dim: HeadDim::Default(128),
    max_positions: 262_144,
    eps: ("rms_norm_eps", 1e-5),
    ..mistral::DEFAULTS
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let (rope, scale) = rotation(config, &core, options)?;
    let variant = Variant { windows: vec![windows::width(config, None)?; core.layers as usize], ..Variant::llama(rope) };
    let mut spec = pre_norm(&core, variant, tensors);
    for layer in &mut spec.layers {
        layer.attention.query_scale = Some(scale);
    }
    Ok(spec)
}

fn rotation(config: &Config<'_>, core: &Core, options: &Options) -> Result<(Rope, PositionScale), Error> {
    let rules = RopeRules::of(core);
    let by_default = json!({
        "rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16_384, "beta_fast": 32.0,
        "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1,
    });
    let outer = Outer::read(config, &rules)?;
    // transformers drops `rope_theta` where it stands alone.
    let (object, outer) = match (rope::object(config)?, by_default.as_object()) {
        (None, Some(by_default)) => (Config::new(by_default), Outer::default()),
        (object, _) => (object.ok_or_else(|| config.error("rope_parameters", "is missing"))?, outer),
    };
    object.size("max_position_embeddings")?;
    let beta = object.float("llama_4_scaling_beta")?.optional();
    let beta = beta.ok_or_else(|| object.error("llama_4_scaling_beta", "is missing, and this class has no default beside the object"))?;
    let length = rope::original_positions(&object, &outer, &rules)?;
    let rope = rope::resolve(config, Some(object), &outer, &rules, FAMILY.model_type, options)?;
    Ok((rope, PositionScale { beta, length }))
}
