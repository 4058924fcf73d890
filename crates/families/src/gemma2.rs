//! Gemma 2: as Gemma 1, with norms after the blocks too, soft caps, a query scale of its own and windows on every other layer.
//!
//! Source: transformers 5.24 `models/gemma2`.

use crate::config::{Config, Stored};
use crate::names::{Core, CoreDefaults, HeadDim, LLAMA, Names, NormStyle, Variant};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Tensors, gemma, windows};

pub(crate) const FAMILY: Family = Family {
    model_type: "gemma2",
    architecture: "Gemma2ForCausalLM",
    prefix: "model.",
    summary: "Gemma 2",
    refuses: &["use_bidirectional_attention"],
    irrelevant: &["hidden_act", "sliding_window_size"],
    read,
};

pub(crate) const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 256_000,
    hidden_size: 2304,
    intermediate_size: 9216,
    layers: 26,
    heads: 8,
    kv_heads: Some(4),
    head_dim: HeadDim::Default(256),
    max_positions: 8192,
    eps: ("rms_norm_eps", 1e-6),
    activation: ("hidden_activation", "gelu_pytorch_tanh"),
    tied: true,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let mut spec = alternating(config, &core, FAMILY.model_type, tensors, options)?;
    add_output_norms(&core, &mut spec);
    Ok(spec)
}

/// Gemma 2 without the norms after its blocks: what VaultGemma is.
pub(crate) fn alternating(
    config: &Config<'_>,
    core: &Core,
    model_type: &str,
    tensors: &Tensors<'_>,
    options: &Options,
) -> Result<DecoderSpec, Error> {
    let slides = windows::sliding_layers(config, core.layers, |layer| layer % 2 == 0)?;
    let variant = Variant {
        windows: windows::windows(config, &slides, windows::width(config, Some(4096))?)?,
        names: Names { mlp_norm: "pre_feedforward_layernorm", ..LLAMA },
        ..Variant::llama(rope::read(config, &RopeRules::of(core), model_type, options)?)
    };
    let mut spec = gemma::scaled(config, core, variant, tensors)?;
    let (scale, softcap) = (query_scale(config)?, cap(config, "attn_logit_softcapping", Some(50.0))?);
    for layer in &mut spec.layers {
        (layer.attention.scale, layer.attention.softcap) = (scale, softcap);
    }
    spec.head.softcap = cap(config, "final_logit_softcapping", Some(30.0))?;
    Ok(spec)
}

/// `1 / √query_pre_attn_scalar`.
pub(crate) fn query_scale(config: &Config<'_>) -> Result<f64, Error> {
    Ok((config.size_or("query_pre_attn_scalar", 256)? as f64).powf(-0.5))
}

/// A soft cap: above 0, or `null` for none.
pub(crate) fn cap(config: &Config<'_>, key: &'static str, default: Option<f64>) -> Result<Option<f64>, Error> {
    match config.float(key)? {
        Stored::Absent => Ok(default),
        Stored::Null => Ok(None),
        Stored::Value(cap) if cap > 0.0 => Ok(Some(cap)),
        Stored::Value(cap) => Err(config.error(key, format!("is {cap}; a number above 0, or null for none, is needed"))),
    }
}

/// Norms after attention and after the feed-forward part.
pub(crate) fn add_output_norms(core: &Core, spec: &mut DecoderSpec) {
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        let norm = |part: &str| Some(NormStyle::RmsPlusOne.norm(&format!("model.layers.{index}.{part}"), &core.hidden(), core.eps));
        layer.attention_join.output_norm = norm("post_attention_layernorm");
        layer.mlp_join.output_norm = norm("post_feedforward_layernorm");
    }
}
