//! BLOOM: ALiBi over attended columns, a norm after the embedding, queries, keys and values interleaved head by head.
//!
//! Source: transformers 5.24 `models/bloom`.

use crate::config::Config;
use crate::gpt::{self, Intermediate, SizeKeys, fused_by_head, unrotated};
use crate::names::{self, NormStyle, linear};
use crate::registry::{Family, Options};
use crate::spec::{Activation, Alibi, Arrangement, Attention, Residual};
use crate::{DecoderSpec, Error, Tensors, alibi};

pub(crate) const FAMILY: Family = Family {
    model_type: "bloom",
    architecture: "BloomForCausalLM",
    prefix: "transformer.",
    summary: "BLOOM and BLOOMZ, 560M to 176B",
    refuses: &["slow_but_exact with pretraining_tp above 1"],
    irrelevant: &[
        "attention_softmax_in_fp32",
        "bias_dropout_fusion",
        "masked_softmax_fusion",
        "offset_alibi",
        "skip_bias_add",
        "skip_bias_add_qkv",
        "unk_token_id",
    ],
    read,
};

const KEYS: SizeKeys = SizeKeys {
    vocab_size: 250_880,
    hidden_size: ("hidden_size", Some("n_embed"), 64),
    layers: ("n_layer", Some("num_hidden_layers"), 2),
    heads: ("n_head", Some("num_attention_heads"), 8),
    max_positions: ("seq_length", None, 2048), // the class has no bound; this is what BLOOM was trained for
    intermediate_size: Intermediate::Fourfold,
    tied: true,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, _: &Options) -> Result<DecoderSpec, Error> {
    let core = KEYS.read(config, names::eps_of(config, "layer_norm_epsilon", 1e-5)?, Activation::GeluTanh)?;
    if config.flag_or("slow_but_exact", false)? && config.size_or("pretraining_tp", 1)? > 1 {
        let problem = "is true beside pretraining_tp > 1, where the class leaves two biases out; supported: false";
        return Err(config.error("slow_but_exact", problem));
    }
    let normed = config.flag_or("apply_residual_connection_post_layernorm", false)?;
    let residual = if normed { Residual::Normed } else { Residual::Stream };
    let norm = |name: &str| NormStyle::Layer.norm(name, &core.hidden(), core.eps);
    let layer = |index: u64| {
        let prefix = format!("transformer.h.{index}");
        let projections = fused_by_head(&core, &format!("{prefix}.self_attention.query_key_value"), true);
        let output = linear(&format!("{prefix}.self_attention.dense"), &core.hidden(), &core.queries(), true);
        let attention = Attention { alibi: Some(Alibi::ByAttended(alibi::bloom(core.heads))), ..unrotated(&core, projections, output) };
        let mlp = gpt::plain_mlp(&core, &format!("{prefix}.mlp.dense_h_to_4h"), &format!("{prefix}.mlp.dense_4h_to_h"), true);
        let norms = [norm(&format!("{prefix}.input_layernorm")), norm(&format!("{prefix}.post_attention_layernorm"))];
        let mut layer = gpt::pre_norm(attention, mlp, norms, Arrangement::Sequential);
        layer.attention_join.residual = residual;
        layer.mlp_join.residual = residual;
        layer
    };
    let mut embedding = core.embedding("transformer.word_embeddings");
    embedding.norm = Some(norm("transformer.word_embeddings_layernorm"));
    let head = core.output_head("lm_head", &embedding.weight, false, tensors);
    Ok(gpt::decoder(&core, embedding, Vec::new(), layer, Some(norm("transformer.ln_f")), head))
}
