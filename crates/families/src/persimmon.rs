//! Persimmon: queries, keys and values interleaved head by head, norms with biases over query and key heads, half of each head rotated.
//!
//! Source: transformers 5.24 `models/persimmon`.

use crate::config::Config;
use crate::gpt::{self, Intermediate, SizeKeys, fused_by_head};
use crate::gpt_neox::rules;
use crate::names::{self, NormStyle, linear};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::spec::{Arrangement, Attention, HeadNorms, NormExtent, NormOrder};
use crate::{DecoderSpec, Error, Tensors, activation};

pub(crate) const FAMILY: Family = Family {
    model_type: "persimmon",
    architecture: "PersimmonForCausalLM",
    prefix: "model.",
    summary: "Persimmon 8B",
    refuses: &[],
    irrelevant: &[],
    read,
};

const KEYS: SizeKeys = SizeKeys {
    vocab_size: 262_144,
    hidden_size: ("hidden_size", None, 4096),
    layers: ("num_hidden_layers", None, 36),
    heads: ("num_attention_heads", None, 64),
    max_positions: ("max_position_embeddings", None, 16_384),
    intermediate_size: Intermediate::Key("intermediate_size", 16_384),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let eps = names::eps_of(config, "layer_norm_eps", 1e-5)?;
    let core = KEYS.read(config, eps, activation::read(config, "hidden_act", "relu2")?)?;
    let rules = RopeRules { rounds_up: false, ..rules(&core, 0.5) };
    let rope = rope::read(config, &rules, FAMILY.model_type, options)?;
    let head_norms = config.flag_or("qk_layernorm", true)?;
    let norm = |name: &str| NormStyle::Layer.norm(name, &core.hidden(), core.eps);
    let layer = |index: u64| {
        let prefix = format!("model.layers.{index}");
        let head_norm = |part: &str| NormStyle::Layer.norm(&format!("{prefix}.self_attn.{part}"), &core.head(), core.eps);
        let projections = fused_by_head(&core, &format!("{prefix}.self_attn.query_key_value"), true);
        let output = linear(&format!("{prefix}.self_attn.dense"), &core.hidden(), &core.queries(), true);
        let attention = Attention {
            head_norms: head_norms.then(|| HeadNorms {
                query: head_norm("q_layernorm"),
                key: head_norm("k_layernorm"),
                extent: NormExtent::Head,
                order: NormOrder::BeforeRotation,
            }),
            ..core.attention(projections, output)
        };
        let mlp = gpt::plain_mlp(&core, &format!("{prefix}.mlp.dense_h_to_4h"), &format!("{prefix}.mlp.dense_4h_to_h"), true);
        let norms = [norm(&format!("{prefix}.input_layernorm")), norm(&format!("{prefix}.post_attention_layernorm"))];
        gpt::pre_norm(attention, mlp, norms, Arrangement::Sequential)
    };
    let embedding = core.embedding("model.embed_tokens");
    let head = core.output_head("lm_head", &embedding.weight, false, tensors);
    Ok(gpt::decoder(&core, embedding, vec![rope], layer, Some(norm("model.final_layernorm")), head))
}
