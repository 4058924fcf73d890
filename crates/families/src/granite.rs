//! Granite 3 and 4 dense: as Llama, with four multipliers.
//!
//! Source: transformers 5.24 `models/granite`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Tensors, llama};

pub(crate) const FAMILY: Family = Family {
    model_type: "granite",
    architecture: "GraniteForCausalLM",
    prefix: "model.",
    summary: "Granite 3.x and dense 4.x",
    refuses: &[],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults { head_dim: HeadDim::RoundedDown, ..llama::DEFAULTS };

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let rope = rope::read(config, &RopeRules::of(&core), FAMILY.model_type, options)?;
    let scale = config.float_or("attention_multiplier", 1.0)?;
    multiplied(config, &core, scale, Variant::llama(rope), tensors)
}

/// The decoder of all Granites: biases by flag, and multipliers of embeddings, scores (`scale`), residual terms and logits.
pub(crate) fn multiplied(
    config: &Config<'_>,
    core: &Core,
    scale: f64,
    variant: Variant,
    tensors: &Tensors<'_>,
) -> Result<DecoderSpec, Error> {
    let bias = config.flag_or("attention_bias", false)?;
    let variant = Variant {
        attention_bias: if bias { AttentionBias::All } else { AttentionBias::None },
        mlp_bias: config.flag_or("mlp_bias", false)?,
        ..variant
    };
    let mut spec = pre_norm(core, variant, tensors);
    spec.embedding.scale = config.float_or("embedding_multiplier", 1.0)?;
    let residual = config.float_or("residual_multiplier", 1.0)?;
    for layer in &mut spec.layers {
        layer.attention.scale = scale;
        layer.attention_join.scale = residual;
        layer.mlp_join.scale = residual;
    }
    spec.head.scale = match config.float_or("logits_scaling", 1.0)? {
        0.0 => return Err(config.error("logits_scaling", "is 0; logits are divided by it")),
        scaling => 1.0 / scaling,
    };
    Ok(spec)
}
