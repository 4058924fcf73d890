//! StableLM 3B, Zephyr and StableLM 2: layer norms, part of each head rotated, biases on query, key and value by flag; StableLM 2 12B
//! reads one norm in both blocks and norms every query and key head with a weight of its own.
//!
//! Source: transformers 5.24 `models/stablelm`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, LLAMA, Names, NormStyle, Variant, pre_norm, weight};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{Arrangement, DecoderSpec, Error, Gain, HeadNorms, Norm, NormExtent, NormKind, NormOrder, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "stablelm",
    architecture: "StableLmForCausalLM",
    prefix: "model.",
    summary: "StableLM 3B, StableLM 2, Stable Code, StableLM Zephyr",
    refuses: &[],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 50_304,
    hidden_size: 2560,
    intermediate_size: 6912,
    layers: 32,
    heads: 32,
    kv_heads: Some(32),
    head_dim: HeadDim::Quotient,
    max_positions: 4096,
    eps: ("layer_norm_eps", 1e-5),
    activation: ("hidden_act", "silu"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let rules = RopeRules { partial: Some(0.25), rounds_up: false, ..RopeRules::of(&core) };
    let parallel = config.flag_or("use_parallel_residual", false)?;
    let bias = config.flag_or("use_qkv_bias", false)?;
    let head_norms = config.flag_or("qk_layernorm", false)?;
    let variant = Variant {
        names: Names { mlp_norm: if parallel { LLAMA.input_norm } else { LLAMA.mlp_norm }, ..LLAMA },
        norm: NormStyle::Layer,
        attention_bias: if bias { AttentionBias::QueryKeyValue } else { AttentionBias::None },
        ..Variant::llama(rope::read(config, &rules, FAMILY.model_type, options)?)
    };
    let mut spec = pre_norm(&core, variant, tensors);
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        let norm = |part: &str, heads: u64| Norm {
            kind: NormKind::Layer,
            width: core.head_dim,
            gain: Gain::PerHead(
                (0..heads)
                    .map(|head| weight(format!("{}.{index}.self_attn.{part}.norms.{head}.weight", LLAMA.layers), &[&core.head()]))
                    .collect(),
            ),
            bias: None,
            eps: core.eps,
        };
        if head_norms {
            let (query, key) = (norm("q_layernorm", core.heads), norm("k_layernorm", core.kv_heads));
            layer.attention.head_norms = Some(HeadNorms { query, key, extent: NormExtent::Head, order: NormOrder::BeforeRotation });
        }
        if parallel {
            layer.arrangement = Arrangement::Parallel;
        }
    }
    Ok(spec)
}
