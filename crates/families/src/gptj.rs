//! GPT-J: attention and feed-forward part read one norm at once; the first `rotary_dim` elements of a head turn as neighbours.
//!
//! Source: transformers 5.24 `models/gptj`.

use crate::config::Config;
use crate::gpt::{self, SizeKeys, separate};
use crate::names::{self, Core, NormStyle, linear};
use crate::registry::{Family, Options};
use crate::rope;
use crate::spec::{Arrangement, Frequencies, Pairing, Projections, Rope};
use crate::{DecoderSpec, Error, Tensors, activation, gpt2};

pub(crate) const FAMILY: Family = Family {
    model_type: "gptj",
    architecture: "GPTJForCausalLM",
    prefix: "transformer.",
    summary: "GPT-J 6B and its descendants",
    // The last two are written by old versions; the class always rotates and always scales.
    refuses: &[],
    irrelevant: &["n_ctx", "rotary", "scale_attn_weights"],
    read,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, _: &Options) -> Result<DecoderSpec, Error> {
    let core = core(config)?;
    decoder(config, tensors, &core, |prefix| separate(&core, prefix, ["q_proj", "k_proj", "v_proj"], false))
}

pub(crate) fn core(config: &Config<'_>) -> Result<Core, Error> {
    let keys = SizeKeys {
        vocab_size: 50_400,
        hidden_size: ("n_embd", Some("hidden_size"), 4096),
        layers: ("n_layer", Some("num_hidden_layers"), 28),
        heads: ("n_head", Some("num_attention_heads"), 16),
        max_positions: ("n_positions", Some("max_position_embeddings"), 2048),
        tied: false,
        ..gpt2::KEYS
    };
    let eps = names::eps_of(config, "layer_norm_epsilon", 1e-5)?;
    keys.read(config, eps, activation::read(config, "activation_function", "gelu_new")?)
}

/// GPT-J with projections, below `{layer}.attn`, made by `projections`.
pub(crate) fn decoder(
    config: &Config<'_>,
    tensors: &Tensors<'_>,
    core: &Core,
    projections: impl Fn(&str) -> Projections,
) -> Result<DecoderSpec, Error> {
    let rope = rotation(config, core)?;
    let norm = |name: &str| NormStyle::Layer.norm(name, &core.hidden(), core.eps);
    let layer = |index: u64| {
        let prefix = format!("transformer.h.{index}");
        let output = linear(&format!("{prefix}.attn.out_proj"), &core.hidden(), &core.queries(), false);
        let attention = core.attention(projections(&format!("{prefix}.attn")), output);
        let mlp = gpt::plain_mlp(core, &format!("{prefix}.mlp.fc_in"), &format!("{prefix}.mlp.fc_out"), true);
        let shared = norm(&format!("{prefix}.ln_1"));
        gpt::pre_norm(attention, mlp, [shared.clone(), shared], Arrangement::Parallel)
    };
    let embedding = core.embedding("transformer.wte");
    let head = core.output_head("lm_head", &embedding.weight, true, tensors);
    Ok(gpt::decoder(core, embedding, vec![rope], layer, Some(norm("transformer.ln_f")), head))
}

fn rotation(config: &Config<'_>, core: &Core) -> Result<Rope, Error> {
    let dim = config.size_or("rotary_dim", 64)?;
    if dim > core.head_dim || !dim.is_multiple_of(2) {
        return Err(config.error("rotary_dim", format!("is {dim}; an even number up to n_embd / n_head = {} is needed", core.head_dim)));
    }
    Ok(Rope { frequencies: Frequencies::Fixed(rope::inverse(10_000.0, dim)), amplitude: 1.0, pairing: Pairing::Interleaved })
}
