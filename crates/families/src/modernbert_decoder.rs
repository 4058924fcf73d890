//! ModernBERT as a decoder: layer norms, one of them on the embedding and none before the first attention; one matrix for gate and up; a
//! dense layer before the head; windows on all layers but every third, which have a rotation of their own.
//!
//! Source: transformers 5.24 `models/modernbert_decoder`.

use crate::config::{Config, Stored};
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, LLAMA, Names, NormStyle, Variant, linear, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, Outer, RopeRules};
use crate::windows::{self, sliding_layers};
use crate::{DecoderSpec, Error, HeadTransform, MlpInput, Rope, Tensors, activation};

pub(crate) const FAMILY: Family = Family {
    model_type: "modernbert-decoder",
    architecture: "ModernBertDecoderForCausalLM",
    prefix: "model.",
    summary: "Ettin decoders",
    refuses: &["rope_scaling that is not by layer type"],
    irrelevant: &[
        "classifier_pooling",
        "cls_token_id",
        "deterministic_flash_attn",
        "initializer_cutoff_factor",
        "layer_norm_eps",
        "mask_token_id",
        "mlp_dropout",
        "position_embedding_type",
        "reference_compile",
        "repad_logits_with_grad",
        "sparse_pred_ignore_index",
        "sparse_prediction",
    ],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 50_368,
    hidden_size: 768,
    intermediate_size: 1152,
    layers: 22,
    heads: 12,
    kv_heads: None,
    head_dim: HeadDim::Quotient,
    max_positions: 8192,
    eps: ("norm_eps", 1e-5),
    activation: ("hidden_activation", "gelu"),
    tied: true,
};

const NAMES: Names = Names {
    attention: "attn",
    projections: ["q_proj", "k_proj", "v_proj", "Wo"],
    feed_forward: ["", "Wi", "Wo"],
    input_norm: "attn_norm",
    mlp_norm: "mlp_norm",
    embedding: "model.embeddings.tok_embeddings",
    final_norm: "model.final_norm",
    head: "decoder",
    ..LLAMA
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let bias = config.flag_or("attention_bias", false)?;
    let mlp_bias = config.flag_or("mlp_bias", false)?;
    let norm = if config.flag_or("norm_bias", false)? { NormStyle::Layer } else { NormStyle::LayerNoBias };
    let period = config.size_or("global_attn_every_n_layers", 3)?;
    let slides = sliding_layers(config, core.layers, |layer| !layer.is_multiple_of(period))?;
    let [full, sliding] = ropes(config, &core, options)?;
    let variant = Variant {
        names: NAMES,
        norm,
        attention_bias: if bias { AttentionBias::All } else { AttentionBias::None },
        gated: false,
        mlp_bias,
        windows: windows::windows(config, &slides, window(config)?)?,
        ..Variant::llama(full)
    };
    let mut spec = pre_norm(&core, variant, tensors);
    spec.ropes.push(sliding);
    for ((index, layer), slides) in spec.layers.iter_mut().enumerate().zip(slides) {
        layer.attention.rope = Some(usize::from(slides));
        let name = format!("{}.{index}.mlp.Wi", NAMES.layers);
        layer.mlp.input = MlpInput::FusedGated { gate_up: linear(&name, &core.intermediate().times(2), &core.hidden(), mlp_bias) };
        if index == 0 {
            layer.attention_join.input_norm = None;
        }
    }
    let hidden_norm = |name: &str| Some(norm.norm(name, &core.hidden(), core.eps));
    spec.embedding.norm = hidden_norm("model.embeddings.norm");
    spec.head = core.output_head(NAMES.head, &spec.embedding.weight, config.flag_or("decoder_bias", true)?, tensors);
    spec.head.transform = Some(HeadTransform {
        linear: linear("lm_head.dense", &core.hidden(), &core.hidden(), config.flag_or("classifier_bias", false)?),
        activation: activation::read(config, "classifier_activation", "gelu")?,
        norm: hidden_norm("lm_head.norm"),
    });
    Ok(spec)
}

/// Half of `local_attention`, unless the config gives `sliding_window` itself.
fn window(config: &Config<'_>) -> Result<Option<u64>, Error> {
    let half = config.size_or("local_attention", 128)? / 2;
    match config.size("sliding_window")? {
        Stored::Value(window) => Ok(Some(window)),
        Stored::Null => Ok(None),
        Stored::Absent if half == 0 => Err(config.error("local_attention", "is 1, which leaves no key to see")),
        Stored::Absent => Ok(Some(half)),
    }
}

/// Of the layers that see everything, and of those that slide.
fn ropes(config: &Config<'_>, core: &Core, options: &Options) -> Result<[Rope; 2], Error> {
    let theta = |key: &'static str, default: f64| config.float_or(key, default);
    let rules = |theta: f64| RopeRules { theta, ..RopeRules::of(core) };
    let (full, sliding) = (rules(theta("global_rope_theta", 160_000.0)?), rules(theta("local_rope_theta", 10_000.0)?));
    let types = [
        ("full_attention", "rope_parameters.full_attention.", &full),
        ("sliding_attention", "rope_parameters.sliding_attention.", &sliding),
    ];
    let plain = |rules: &RopeRules| rope::resolve(config, None, &Outer::default(), rules, FAMILY.model_type, options);
    match rope::read_by_type(config, types, FAMILY.model_type, options)? {
        Some([Some(full), Some(sliding)]) => return Ok([full, sliding]),
        Some(_) => return Err(config.error("rope_parameters", "holds null, which transformers refuses here")),
        None => {}
    }
    if config.object("rope_scaling", "rope_scaling.")?.optional().is_some() {
        return Err(config.error("rope_scaling", "is not supported for modernbert-decoder: give `rope_parameters` by kind of layer"));
    }
    Ok([plain(&full)?, plain(&sliding)?])
}
