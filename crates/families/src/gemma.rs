//! Gemma 1: as Llama, with embeddings scaled by the root of their width and norm weights stored less 1.
//!
//! Source: transformers 5.24 `models/gemma`.

use crate::config::{Config, Stored};
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, NormStyle, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{Activation, DecoderSpec, Error, Tensors, activation};

pub(crate) const FAMILY: Family = Family {
    model_type: "gemma",
    architecture: "GemmaForCausalLM",
    prefix: "model.",
    summary: "Gemma 1, CodeGemma",
    refuses: &["use_bidirectional_attention"],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 256_000,
    hidden_size: 3072,
    intermediate_size: 24_576,
    layers: 28,
    heads: 16,
    kv_heads: Some(16),
    head_dim: HeadDim::Default(256),
    max_positions: 8192,
    eps: ("rms_norm_eps", 1e-6),
    activation: ("hidden_act", "gelu_pytorch_tanh"),
    tied: true,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let mut core = Core::read(config, &DEFAULTS)?;
    if config.text("hidden_act")? == Stored::Value("gelu") {
        core.activation = Activation::GeluTanh;
    }
    // Of transformers 4; what it said then is what `hidden_act` must say.
    if config.text("hidden_activation")?.optional().is_some() && activation::read(config, "hidden_activation", "")? != core.activation {
        return Err(config.error("hidden_activation", "differs from `hidden_act`, the only one that this class reads"));
    }
    let rope = rope::read(config, &RopeRules::of(&core), FAMILY.model_type, options)?;
    scaled(config, &core, Variant::llama(rope), tensors)
}

/// The decoder that all Gemmas vary: scaled embeddings, norms that add 1, attention to the past only, biases by flag.
pub(crate) fn scaled(config: &Config<'_>, core: &Core, variant: Variant, tensors: &Tensors<'_>) -> Result<DecoderSpec, Error> {
    if config.flag("use_bidirectional_attention")? == Stored::Value(true) {
        return Err(config.error("use_bidirectional_attention", "is true; supported: attention to the past only"));
    }
    let bias = config.flag_or("attention_bias", false)?;
    let attention_bias = if bias { AttentionBias::All } else { AttentionBias::None };
    let mut spec = pre_norm(core, Variant { norm: NormStyle::RmsPlusOne, attention_bias, ..variant }, tensors);
    spec.embedding.scale = (core.hidden_size as f64).sqrt();
    Ok(spec)
}
