//! Command R and R+, Aya 23: both blocks read one layer norm without bias, rotation in interleaved pairs, logits scaled; Command R+ norms
//! every query and key head with a row of its own.
//!
//! Source: transformers 5.24 `models/cohere`.

use crate::config::Config;
use crate::names::{Core, CoreDefaults, HeadDim, LLAMA, Names, NormStyle, Size, Variant, pre_norm, weight};
use crate::olmo::attention_bias;
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{Arrangement, DecoderSpec, Error, Gain, HeadNorms, Norm, NormExtent, NormKind, NormOrder, Pairing, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "cohere",
    architecture: "CohereForCausalLM",
    prefix: "model.",
    summary: "Command R, Command R+, Aya 23",
    refuses: &[],
    irrelevant: &[],
    read,
};

pub(crate) const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 256_000,
    hidden_size: 8192,
    intermediate_size: 22_528,
    layers: 40,
    heads: 64,
    kv_heads: None,
    head_dim: HeadDim::RoundedDown,
    max_positions: 8192,
    eps: ("layer_norm_eps", 1e-5),
    activation: ("hidden_act", "silu"),
    tied: true,
};

/// Both blocks read the same norm.
pub(crate) const NAMES: Names = Names { mlp_norm: LLAMA.input_norm, ..LLAMA };

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let rules = RopeRules { theta: 500_000.0, pairing: Pairing::Interleaved, ..RopeRules::of(&core) };
    let variant = Variant {
        names: NAMES,
        norm: NormStyle::LayerNoBias,
        attention_bias: attention_bias(config, false)?,
        ..Variant::llama(rope::read(config, &rules, FAMILY.model_type, options)?)
    };
    let mut spec = pre_norm(&core, variant, tensors);
    spec.head.scale = config.float_or("logit_scale", 0.0625)?;
    for layer in &mut spec.layers {
        layer.arrangement = Arrangement::Parallel;
    }
    if config.flag("use_qk_norm")?.optional() == Some(true) {
        norms_by_head(&mut spec, &core);
    }
    Ok(spec)
}

/// Layer norms `q_norm` and `k_norm` of `[heads, head_dim]`, before rotation.
fn norms_by_head(spec: &mut DecoderSpec, core: &Core) {
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        let norm = |part: &str, key: &str, heads: u64| {
            let heads = Size::new(heads, format!("{key} {heads}"));
            let weight = weight(format!("{}.{index}.self_attn.{part}.weight", LLAMA.layers), &[&heads, &core.head()]);
            Norm { kind: NormKind::Layer, width: core.head_dim, gain: Gain::Weight { weight, offset: 0.0 }, bias: None, eps: core.eps }
        };
        let query = norm(LLAMA.query_norm, "num_attention_heads", core.heads);
        let key = norm(LLAMA.key_norm, "num_key_value_heads", core.kv_heads);
        layer.attention.head_norms = Some(HeadNorms { query, key, extent: NormExtent::Head, order: NormOrder::BeforeRotation });
    }
}
