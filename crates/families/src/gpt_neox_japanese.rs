//! GPT-NeoX Japanese: GPT-NeoX with one block after the other and no bias but that of the last layer's attention output.
//!
//! Source: transformers 5.24 `models/gpt_neox_japanese`.

use crate::config::Config;
use crate::gpt::{self, Intermediate, SizeKeys, fused_by_head};
use crate::names::{self, NormStyle, linear, weight};
use crate::registry::{Family, Options};
use crate::rope::{self, Outer};
use crate::spec::Arrangement;
use crate::{DecoderSpec, Error, Tensors, activation, gpt_neox};

pub(crate) const FAMILY: Family = Family {
    model_type: "gpt_neox_japanese",
    architecture: "GPTNeoXJapaneseForCausalLM",
    prefix: "gpt_neox_japanese.",
    summary: "GPT-NeoX Japanese 2.7B",
    refuses: &[],
    irrelevant: gpt_neox::FAMILY.irrelevant,
    read,
};

const KEYS: SizeKeys = SizeKeys {
    vocab_size: 32_000,
    hidden_size: ("hidden_size", None, 2560),
    layers: ("num_hidden_layers", None, 32),
    heads: ("num_attention_heads", None, 32),
    max_positions: ("max_position_embeddings", None, 2048),
    intermediate_size: Intermediate::Fourfold, // times `intermediate_multiple_size`, below
    tied: true,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let eps = names::eps_of(config, "layer_norm_eps", 1e-5)?;
    let mut core = KEYS.read(config, eps, activation::read(config, "hidden_act", "gelu")?)?;
    core.intermediate_size = core.hidden_size * config.size_or("intermediate_multiple_size", 4)?;
    let rules = gpt_neox::rules(&core, 1.0);
    let rope = rope::read_beside(config, &Outer::read_rotary(config, &rules)?, &rules, FAMILY.model_type, options)?;
    let norm = |name: &str| NormStyle::Layer.norm(name, &core.hidden(), core.eps);
    let layer = |index: u64| {
        let prefix = format!("gpt_neox_japanese.layers.{index}");
        let projections = fused_by_head(&core, &format!("{prefix}.attention.query_key_value"), false);
        let mut output = linear(&format!("{prefix}.attention.dense"), &core.hidden(), &core.queries(), false);
        if index == core.layers - 1 {
            output.bias = Some(weight(format!("{prefix}.attention.dense_bias"), &[&core.hidden()]));
        }
        let mlp = gpt::plain_mlp(&core, &format!("{prefix}.mlp.dense_h_to_4h"), &format!("{prefix}.mlp.dense_4h_to_h"), false);
        let norms = [norm(&format!("{prefix}.input_layernorm")), norm(&format!("{prefix}.post_attention_layernorm"))];
        gpt::pre_norm(core.attention(projections, output), mlp, norms, Arrangement::Sequential)
    };
    let embedding = core.embedding("gpt_neox_japanese.embed_in");
    let head = core.output_head("embed_out", &embedding.weight, false, tensors);
    Ok(gpt::decoder(&core, embedding, vec![rope], layer, Some(norm("gpt_neox_japanese.final_layer_norm")), head))
}
