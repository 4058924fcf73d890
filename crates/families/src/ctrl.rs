//! CTRL: sinusoidal positions, an embedding scaled by √n_embd, a head with a bias.
//!
//! Source: transformers 5.24 `models/ctrl`.

use crate::config::Config;
use crate::gpt::{self, Intermediate, SizeKeys, separate, unrotated};
use crate::names::{self, NormStyle, linear};
use crate::registry::{Family, Options};
use crate::spec::{Activation, Arrangement, Positions};
use crate::{DecoderSpec, Error, Tensors, gpt2, rope};

pub(crate) const FAMILY: Family = Family {
    model_type: "ctrl",
    architecture: "CTRLLMHeadModel",
    prefix: "transformer.",
    summary: "CTRL",
    refuses: &[],
    irrelevant: &["from_tf", "n_ctx"],
    read,
};

/// Of the norms within layers; `layer_norm_epsilon` is the last norm's only.
const LAYER_EPS: f64 = 1e-6;

fn read(config: &Config<'_>, tensors: &Tensors<'_>, _: &Options) -> Result<DecoderSpec, Error> {
    let keys = SizeKeys {
        vocab_size: 246_534,
        hidden_size: ("n_embd", Some("hidden_size"), 1280),
        layers: ("n_layer", Some("num_hidden_layers"), 48),
        heads: ("n_head", Some("num_attention_heads"), 16),
        max_positions: ("n_positions", Some("max_position_embeddings"), 256),
        intermediate_size: Intermediate::Key("dff", 8192),
        ..gpt2::KEYS
    };
    let core = keys.read(config, names::eps_of(config, "layer_norm_epsilon", 1e-6)?, Activation::Relu)?;
    let hidden = &core.hidden();
    if !core.hidden_size.is_multiple_of(2) {
        return Err(config.error("n_embd", format!("is {}; sinusoidal positions need an even number", core.hidden_size)));
    }
    let layer = |index: u64| {
        let prefix = format!("transformer.h.{index}");
        let projections = separate(&core, &format!("{prefix}.multi_head_attention"), ["Wq", "Wk", "Wv"], true);
        let output = linear(&format!("{prefix}.multi_head_attention.dense"), hidden, &core.queries(), true);
        let mlp = gpt::plain_mlp(&core, &format!("{prefix}.ffn.0"), &format!("{prefix}.ffn.2"), true);
        let norms = ["layernorm1", "layernorm2"].map(|name| NormStyle::Layer.norm(&format!("{prefix}.{name}"), hidden, LAYER_EPS));
        gpt::pre_norm(unrotated(&core, projections, output), mlp, norms, Arrangement::Sequential)
    };
    let mut embedding = core.embedding("transformer.w");
    let head = core.output_head("lm_head", &embedding.weight, true, tensors);
    embedding.scale = (core.hidden_size as f64).sqrt();
    embedding.positions = Some(Positions::Sinusoidal { frequencies: rope::inverse(10_000.0, core.hidden_size), offset: 0 });
    let final_norm = NormStyle::Layer.norm("transformer.layernorm", hidden, core.eps);
    Ok(gpt::decoder(&core, embedding, Vec::new(), layer, Some(final_norm), head))
}
