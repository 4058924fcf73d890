//! The first GPT: learned positions, norms of the stream after each block, none at the end, matrices stored transposed.
//!
//! Source: transformers 5.24 `models/openai`.

use crate::config::Config;
use crate::gpt::{self, Intermediate, SizeKeys, fused, unrotated};
use crate::names::{self, NormStyle, conv1d};
use crate::registry::{Family, Options};
use crate::spec::Activation;
use crate::{DecoderSpec, Error, Tensors, gpt2};

pub(crate) const FAMILY: Family = Family {
    model_type: "openai-gpt",
    architecture: "OpenAIGPTLMHeadModel",
    prefix: "transformer.",
    summary: "GPT (2018)",
    refuses: &["afn other than gelu, relu, silu, swish"],
    irrelevant: &["n_ctx", "n_special", "predict_special_tokens"],
    read,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, _: &Options) -> Result<DecoderSpec, Error> {
    let keys = SizeKeys {
        vocab_size: 40_478,
        max_positions: ("n_positions", Some("max_position_embeddings"), 512),
        intermediate_size: Intermediate::Fourfold,
        ..gpt2::KEYS
    };
    let core = keys.read(config, names::eps_of(config, "layer_norm_epsilon", 1e-5)?, activation(config)?)?;
    let (hidden, intermediate) = (&core.hidden(), &core.intermediate());
    let layer = |index: u64| {
        let prefix = format!("transformer.h.{index}");
        let projections = fused(conv1d(&format!("{prefix}.attn.c_attn"), &core.fused(), hidden, true), 1);
        let output = conv1d(&format!("{prefix}.attn.c_proj"), hidden, &core.queries(), true);
        let up = conv1d(&format!("{prefix}.mlp.c_fc"), intermediate, hidden, true);
        let down = conv1d(&format!("{prefix}.mlp.c_proj"), hidden, intermediate, true);
        let norms = ["ln_1", "ln_2"].map(|name| NormStyle::Layer.norm(&format!("{prefix}.{name}"), hidden, core.eps));
        gpt::post_norm(unrotated(&core, projections, output), gpt::plain(&core, up, down), norms)
    };
    let mut embedding = core.embedding("transformer.tokens_embed");
    let head = core.output_head("lm_head", &embedding.weight, false, tensors);
    embedding.positions = gpt::learned(&core, "transformer.positions_embed", 0);
    Ok(gpt::decoder(&core, embedding, Vec::new(), layer, None, head))
}

/// The class has a table of its own, in which `gelu` is the tanh form.
fn activation(config: &Config<'_>) -> Result<Activation, Error> {
    match config.or_default("afn", config.text("afn")?, "gelu")? {
        "gelu" => Ok(Activation::GeluTanh),
        "relu" => Ok(Activation::Relu),
        "silu" | "swish" => Ok(Activation::Silu),
        other => Err(config.error("afn", format!("is `{other}`; supported: gelu, relu, silu, swish"))),
    }
}
