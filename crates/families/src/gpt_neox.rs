//! GPT-NeoX: queries, keys and values interleaved head by head, a quarter of each head rotated, both blocks at once.
//!
//! Source: transformers 5.24 `models/gpt_neox`.

use crate::config::Config;
use crate::gpt::{self, Intermediate, SizeKeys, fused_by_head};
use crate::names::{self, Core, NormStyle, linear};
use crate::registry::{Family, Options};
use crate::rope::{self, Outer, RopeRules};
use crate::spec::Arrangement;
use crate::{DecoderSpec, Error, Tensors, activation};

pub(crate) const FAMILY: Family = Family {
    model_type: "gpt_neox",
    architecture: "GPTNeoXForCausalLM",
    prefix: "gpt_neox.",
    summary: "GPT-NeoX 20B, Pythia, Dolly 2, RedPajama-INCITE, StableLM alpha",
    // Its rotation follows `rotary_emb_base` and `rotary_pct` alone.
    refuses: &[],
    irrelevant: &["partial_rotary_factor", "rope_theta"],
    read,
};

const KEYS: SizeKeys = SizeKeys {
    vocab_size: 50_432,
    hidden_size: ("hidden_size", None, 6144),
    layers: ("num_hidden_layers", None, 44),
    heads: ("num_attention_heads", None, 64),
    max_positions: ("max_position_embeddings", None, 2048),
    intermediate_size: Intermediate::Key("intermediate_size", 24_576),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let eps = names::eps_of(config, "layer_norm_eps", 1e-5)?;
    let core = KEYS.read(config, eps, activation::read(config, "hidden_act", "gelu")?)?;
    let rules = rules(&core, 0.25);
    let rope = rope::read_beside(config, &Outer::read_rotary(config, &rules)?, &rules, FAMILY.model_type, options)?;
    let bias = config.flag_or("attention_bias", true)?;
    let parallel = config.flag_or("use_parallel_residual", true)?;
    let arrangement = if parallel { Arrangement::Parallel } else { Arrangement::Sequential };
    let norm = |name: &str| NormStyle::Layer.norm(name, &core.hidden(), core.eps);
    let layer = |index: u64| {
        let prefix = format!("gpt_neox.layers.{index}");
        let projections = fused_by_head(&core, &format!("{prefix}.attention.query_key_value"), bias);
        let output = linear(&format!("{prefix}.attention.dense"), &core.hidden(), &core.queries(), bias);
        let mlp = gpt::plain_mlp(&core, &format!("{prefix}.mlp.dense_h_to_4h"), &format!("{prefix}.mlp.dense_4h_to_h"), true);
        let norms = [norm(&format!("{prefix}.input_layernorm")), norm(&format!("{prefix}.post_attention_layernorm"))];
        gpt::pre_norm(core.attention(projections, output), mlp, norms, arrangement)
    };
    let embedding = core.embedding("gpt_neox.embed_in");
    // Files say `embed_out`; transformers 5 calls it `lm_head` in memory and reads both.
    let name = if tensors.contains("lm_head.weight") { "lm_head" } else { "embed_out" };
    let head = core.output_head(name, &embedding.weight, false, tensors);
    Ok(gpt::decoder(&core, embedding, vec![rope], layer, Some(norm("gpt_neox.final_layer_norm")), head))
}

/// Halves, theta 10,000, `partial` of each head.
pub(crate) fn rules(core: &Core, partial: f64) -> RopeRules {
    RopeRules { partial: Some(partial), ..RopeRules::of(core) }
}
