//! EXAONE 3.0 and 3.5: Llama's class under names of its own, in the config and among the tensors.
//!
//! Source: transformers 5.24 `models/exaone` (`attribute_map`), `conversion_mapping.py`, `models/llama`.

use crate::config::{Config, Stored};
use crate::names::{CoreDefaults, LLAMA, Names};
use crate::registry::{Family, Options};
use crate::{DecoderSpec, Error, Tensors, llama};

pub(crate) const FAMILY: Family = Family {
    model_type: "exaone",
    architecture: "LlamaForCausalLM",
    prefix: "model.",
    summary: "EXAONE 3.0, 3.5 and Deep",
    refuses: &[],
    irrelevant: &["auto_map"],
    read,
};

/// As published; transformers saves under these names too.
const PUBLISHED: Names = Names {
    layers: "transformer.h",
    attention: "attn.attention",
    projections: ["q_proj", "k_proj", "v_proj", "out_proj"],
    feed_forward: ["c_fc_0", "c_fc_1", "c_proj"],
    input_norm: "ln_1",
    mlp_norm: "ln_2",
    embedding: "transformer.wte",
    final_norm: "transformer.ln_f",
    ..LLAMA
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let layers = match (config.size("num_layers")?, config.size("num_hidden_layers")?) {
        (Stored::Value(layers), Stored::Value(same)) if layers != same => {
            return Err(config.error("num_layers", format!("is {layers}, but `num_hidden_layers` is {same}")));
        }
        (Stored::Value(layers), _) => layers,
        _ => 32,
    };
    let defaults = CoreDefaults {
        vocab_size: 102_400,
        intermediate_size: 14_336,
        layers,
        kv_heads: Some(8),
        max_positions: 4096,
        eps: (config.either("rms_norm_eps", "layer_norm_epsilon")?, 1e-5),
        activation: (config.either("hidden_act", "activation_function")?, "silu"),
        ..llama::DEFAULTS
    };
    let names = if tensors.any_below("transformer.") { PUBLISHED } else { LLAMA };
    let biases = ["attention_bias", "mlp_bias"];
    llama::decoder(config, &defaults, llama::Keys { names, theta: 500_000.0, biases }, FAMILY.model_type, tensors, options)
}
