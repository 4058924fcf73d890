//! MPT: ALiBi over columns, norms and matrices without biases, clamped projections.
//!
//! The class computes ALiBi, four times `d_model` and no bias whatever the config says; what a checkpoint of other code would need beyond
//! that is either a tensor that is then left over, or its `architectures` names that code.
//!
//! Source: transformers 5.24 `models/mpt`.

use crate::config::{Config, IRRELEVANT};
use crate::gpt::{self, Intermediate, SizeKeys, fused, unrotated};
use crate::names::{self, NormStyle, linear};
use crate::registry::{Family, Options};
use crate::spec::{Activation, Alibi, Arrangement, Attention};
use crate::{DecoderSpec, Error, Tensors, alibi};

pub(crate) const FAMILY: Family = Family {
    model_type: "mpt",
    architecture: "MptForCausalLM",
    prefix: "transformer.",
    summary: "MPT 7B and 30B, as transformers saves them",
    refuses: &[],
    irrelevant: &[
        "embedding_fraction",
        "expansion_ratio",
        "init_config",
        "init_device",
        "learned_pos_emb",
        "logit_scale",
        "no_bias",
        "norm_type",
        "tokenizer_name",
        "verbose",
    ],
    read,
};

const KEYS: SizeKeys = SizeKeys {
    vocab_size: 50_368,
    hidden_size: ("d_model", Some("hidden_size"), 2048),
    layers: ("n_layers", Some("num_hidden_layers"), 24),
    heads: ("n_heads", Some("num_attention_heads"), 16),
    max_positions: ("max_seq_len", None, 2048),
    intermediate_size: Intermediate::Fourfold,
    tied: true,
};

/// Keys of `attn_config` that the class has and does not compute with.
const ATTENTION_IRRELEVANT: &[&str] = &["alibi", "alibi_bias_max", "attn_impl", "attn_type", "attn_uses_sequence_id", "prefix_lm", "qk_ln"];

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = KEYS.read(config, names::eps_of(config, "layer_norm_epsilon", 1e-5)?, Activation::Gelu)?;
    let (mut scale, mut clip) = (None, None);
    if let Some(inner) = config.object("attn_config", "attn_config.")?.optional() {
        scale = inner.float("softmax_scale")?.optional();
        clip = inner.float("clip_qkv")?.optional().filter(|&clip| clip != 0.0);
        let irrelevant = [IRRELEVANT, ATTENTION_IRRELEVANT].concat();
        inner.finish(FAMILY.model_type, &irrelevant, &options.allow_unknown_config)?;
    }
    let norm = |name: &str| NormStyle::LayerNoBias.norm(name, &core.hidden(), core.eps);
    let layer = |index: u64| {
        let prefix = format!("transformer.blocks.{index}");
        let projections = fused(linear(&format!("{prefix}.attn.Wqkv"), &core.fused(), &core.hidden(), false), 1);
        let output = linear(&format!("{prefix}.attn.out_proj"), &core.hidden(), &core.queries(), false);
        let plain = unrotated(&core, projections, output);
        let attention =
            Attention { scale: scale.unwrap_or(plain.scale), clip, alibi: Some(Alibi::ByColumn(alibi::mpt(core.heads))), ..plain };
        let mlp = gpt::plain_mlp(&core, &format!("{prefix}.ffn.up_proj"), &format!("{prefix}.ffn.down_proj"), false);
        let norms = [norm(&format!("{prefix}.norm_1")), norm(&format!("{prefix}.norm_2"))];
        gpt::pre_norm(attention, mlp, norms, Arrangement::Sequential)
    };
    let embedding = core.embedding("transformer.wte");
    let head = core.output_head("lm_head", &embedding.weight, false, tensors);
    Ok(gpt::decoder(&core, embedding, Vec::new(), layer, Some(norm("transformer.norm_f")), head))
}
