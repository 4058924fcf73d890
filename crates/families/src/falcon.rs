//! Falcon: rotated heads, one norm or two before blocks that run at once, one key head (7B) or a few in groups (40B, 180B, 11B).
//!
//! With `alibi` the attention back ends of transformers disagree about it, so it is refused.
//!
//! Source: transformers 5.24 `models/falcon`.

use crate::config::{Config, Stored};
use crate::gpt::{self, Intermediate, SizeKeys, fused};
use crate::names::{self, Core, NormStyle, linear};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::spec::Arrangement;
use crate::{DecoderSpec, Error, Tensors, activation};

pub(crate) const FAMILY: Family = Family {
    model_type: "falcon",
    architecture: "FalconForCausalLM",
    prefix: "transformer.",
    summary: "Falcon 7B, 40B, 180B and Falcon 2 11B",
    refuses: &["alibi"],
    irrelevant: &["apply_residual_connection_post_layernorm", "auto_map", "ff_factor"],
    read,
};

const KEYS: SizeKeys = SizeKeys {
    vocab_size: 65_024,
    hidden_size: ("hidden_size", Some("n_embed"), 4544),
    layers: ("num_hidden_layers", None, 32),
    heads: ("num_attention_heads", None, 71),
    max_positions: ("max_position_embeddings", None, 2048),
    intermediate_size: Intermediate::KeyOrFourfold("ffn_hidden_size"),
    tied: true,
};

/// Which norms a layer has, and who reads them.
#[derive(Clone, Copy)]
enum Norms {
    /// `input_layernorm`, then `post_attention_layernorm`, one block after the other.
    Sequential,
    /// `input_layernorm` for both blocks.
    Shared,
    /// `ln_attn` and `ln_mlp`.
    Two,
}

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let eps = names::eps_of(config, "layer_norm_epsilon", 1e-5)?;
    let mut core = KEYS.read(config, eps, activation::read(config, "activation", "gelu")?)?;
    if flag(config, "alibi", false)? {
        return Err(config.error("alibi", "is true, which transformers computes otherwise in each attention back end; supported: false"));
    }
    let grouped = flag(config, "new_decoder_architecture", false)?;
    core.kv_heads = kv_heads(config, &core, grouped)?;
    let core = core.checked(config)?;
    let bias = flag(config, "bias", false)?;
    let style = norms(config, grouped)?;
    let rope = rope::read(config, &RopeRules::of(&core), FAMILY.model_type, options)?;
    let norm = |name: &str| NormStyle::Layer.norm(name, &core.hidden(), core.eps);
    let layer = |index: u64| {
        let prefix = format!("transformer.h.{index}");
        let query_key_value = linear(&format!("{prefix}.self_attention.query_key_value"), &core.fused(), &core.hidden(), bias);
        let output = linear(&format!("{prefix}.self_attention.dense"), &core.hidden(), &core.queries(), bias);
        let attention = core.attention(fused(query_key_value, core.kv_heads), output);
        let mlp = gpt::plain_mlp(&core, &format!("{prefix}.mlp.dense_h_to_4h"), &format!("{prefix}.mlp.dense_4h_to_h"), bias);
        let (names, arrangement) = match style {
            Norms::Sequential => (["input_layernorm", "post_attention_layernorm"], Arrangement::Sequential),
            Norms::Shared => (["input_layernorm", "input_layernorm"], Arrangement::Parallel),
            Norms::Two => (["ln_attn", "ln_mlp"], Arrangement::Parallel),
        };
        gpt::pre_norm(attention, mlp, names.map(|name| norm(&format!("{prefix}.{name}"))), arrangement)
    };
    let embedding = core.embedding("transformer.word_embeddings");
    let head = core.output_head("lm_head", &embedding.weight, false, tensors);
    Ok(gpt::decoder(&core, embedding, vec![rope], layer, Some(norm("transformer.ln_f")), head))
}

/// A flag for which `null` is as good as false.
fn flag(config: &Config<'_>, key: &'static str, default: bool) -> Result<bool, Error> {
    Ok(match config.flag(key)? {
        Stored::Value(flag) => flag,
        Stored::Null => false,
        Stored::Absent => default,
    })
}

/// `num_kv_heads` groups of the new architecture; one head, or as many as queries have, of the old one.
fn kv_heads(config: &Config<'_>, core: &Core, grouped: bool) -> Result<u64, Error> {
    let given = config.size("num_kv_heads")?.optional().unwrap_or(core.heads);
    let one = flag(config, "multi_query", true)?;
    match (grouped, one) {
        (true, _) if !core.heads.is_multiple_of(given) => {
            Err(config.error("num_kv_heads", format!("is {given}, which does not divide num_attention_heads {}", core.heads)))
        }
        (true, _) => Ok(given),
        (false, true) => Ok(1),
        (false, false) if given != core.heads => {
            let problem =
                format!("is {given} without multi_query and new_decoder_architecture; num_attention_heads {} is needed", core.heads);
            Err(config.error("num_kv_heads", problem))
        }
        (false, false) => Ok(core.heads),
    }
}

/// Combinations that are refused here have no forward pass in transformers.
fn norms(config: &Config<'_>, grouped: bool) -> Result<Norms, Error> {
    let parallel = flag(config, "parallel_attn", true)?;
    let count = config.size("num_ln_in_parallel_attn")?.optional();
    match (grouped, parallel, count) {
        (false, false, _) => Ok(Norms::Sequential),
        (true, false, _) => Err(config.error("parallel_attn", "is false beside new_decoder_architecture; supported: true")),
        (true, true, Some(2) | None) => Ok(Norms::Two),
        (true, true, Some(1)) => Ok(Norms::Shared),
        (false, true, count) if count != Some(2) => Ok(Norms::Shared),
        (_, true, count) => {
            let problem = format!("is {}; supported: 1, and 2 beside new_decoder_architecture", count.unwrap_or_default());
            Err(config.error("num_ln_in_parallel_attn", problem))
        }
    }
}
