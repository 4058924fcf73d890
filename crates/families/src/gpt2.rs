//! GPT-2: learned positions, layer norms with biases, one matrix for queries, keys and values, matrices stored transposed.
//!
//! Source: transformers 5.24 `models/gpt2`; `gpt-sw3` is mapped to the same class.

use crate::activation;
use crate::config::Config;
use crate::gpt::{self, Intermediate, SizeKeys, fused, unrotated};
use crate::names::{self, Core, NormStyle, Size, conv1d};
use crate::registry::{Family, Options};
use crate::spec::{Arrangement, Attention, Linear};
use crate::{DecoderSpec, Error, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "gpt2",
    architecture: "GPT2LMHeadModel",
    prefix: "transformer.",
    summary: "GPT-2, DistilGPT2, DialoGPT, Cerebras-GPT",
    refuses: &["add_cross_attention"],
    // The last computes the same in another order.
    irrelevant: &["n_ctx", "n_special", "predict_special_tokens", "reorder_and_upcast_attn"],
    read,
};

pub(crate) const SW3: Family = Family { model_type: "gpt-sw3", summary: "GPT-SW3", ..FAMILY };

/// The names that GPT-2 brought and its descendants kept.
pub(crate) const KEYS: SizeKeys = SizeKeys {
    vocab_size: 50_257,
    hidden_size: ("n_embd", Some("hidden_size"), 768),
    layers: ("n_layer", Some("num_hidden_layers"), 12),
    heads: ("n_head", Some("num_attention_heads"), 12),
    max_positions: ("n_positions", Some("max_position_embeddings"), 1024),
    intermediate_size: Intermediate::KeyOrFourfold("n_inner"),
    tied: true,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, _: &Options) -> Result<DecoderSpec, Error> {
    let eps = names::eps_of(config, "layer_norm_epsilon", 1e-5)?;
    let core = KEYS.read(config, eps, activation::read(config, "activation_function", "gelu_new")?)?;
    let scale = scale(config, &core)?;
    let by_layer = config.flag_or("scale_attn_by_inverse_layer_idx", false)?;
    let attention = |index: u64, prefix: &str| {
        let projections = fused(conv1d(&format!("{prefix}.c_attn"), &core.fused(), &core.hidden(), true), 1);
        let output = conv1d(&format!("{prefix}.c_proj"), &core.hidden(), &core.queries(), true);
        let scale = if by_layer { scale / (index + 1) as f64 } else { scale };
        Attention { scale, ..unrotated(&core, projections, output) }
    };
    Ok(decoder(&core, tensors, conv1d, attention))
}

/// The factor on scores: 1 where `scale_attn_weights` is off.
pub(crate) fn scale(config: &Config<'_>, core: &Core) -> Result<f64, Error> {
    Ok(if config.flag_or("scale_attn_weights", true)? { (core.head_dim as f64).powf(-0.5) } else { 1.0 })
}

/// GPT-2 with matrices of the feed-forward part made by `affine` and attention, below `{layer}.attn`, by `attention`.
pub(crate) fn decoder(
    core: &Core,
    tensors: &Tensors<'_>,
    affine: fn(&str, &Size, &Size, bool) -> Linear,
    attention: impl Fn(u64, &str) -> Attention,
) -> DecoderSpec {
    let (hidden, intermediate) = (&core.hidden(), &core.intermediate());
    let norm = |name: &str| NormStyle::Layer.norm(name, hidden, core.eps);
    let layer = |index: u64| {
        let prefix = format!("transformer.h.{index}");
        let up = affine(&format!("{prefix}.mlp.c_fc"), intermediate, hidden, true);
        let down = affine(&format!("{prefix}.mlp.c_proj"), hidden, intermediate, true);
        let norms = [norm(&format!("{prefix}.ln_1")), norm(&format!("{prefix}.ln_2"))];
        gpt::pre_norm(attention(index, &format!("{prefix}.attn")), gpt::plain(core, up, down), norms, Arrangement::Sequential)
    };
    let mut embedding = core.embedding("transformer.wte");
    let head = core.output_head("lm_head", &embedding.weight, false, tensors);
    embedding.positions = gpt::learned(core, "transformer.wpe", 0);
    gpt::decoder(core, embedding, Vec::new(), layer, Some(norm("transformer.ln_f")), head)
}
