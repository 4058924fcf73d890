//! Phi-1, Phi-1.5 and Phi-2: both blocks read one layer norm, biases everywhere (the head's too), part of each head rotated.
//!
//! Source: transformers 5.24 `models/phi`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, LLAMA, Names, NormStyle, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{Arrangement, DecoderSpec, Error, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "phi",
    architecture: "PhiForCausalLM",
    prefix: "model.",
    summary: "Phi-1, Phi-1.5, Phi-2",
    refuses: &[],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 51_200,
    hidden_size: 2048,
    intermediate_size: 8192,
    layers: 24,
    heads: 32,
    kv_heads: None,
    head_dim: HeadDim::RoundedDown,
    max_positions: 2048,
    eps: ("layer_norm_eps", 1e-5),
    activation: ("hidden_act", "gelu_new"),
    tied: false,
};

const NAMES: Names = Names {
    projections: ["q_proj", "k_proj", "v_proj", "dense"],
    query_norm: "q_layernorm",
    key_norm: "k_layernorm",
    feed_forward: ["", "fc1", "fc2"],
    mlp_norm: "input_layernorm",
    final_norm: "model.final_layernorm",
    ..LLAMA
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let rules = RopeRules { partial: Some(0.5), rounds_up: false, ..RopeRules::of(&core) };
    let variant = Variant {
        names: NAMES,
        norm: NormStyle::Layer,
        attention_bias: AttentionBias::All,
        gated: false,
        mlp_bias: true,
        head_norms: config.flag_or("qk_layernorm", false)?,
        ..Variant::llama(rope::read(config, &rules, FAMILY.model_type, options)?)
    };
    let mut spec = pre_norm(&core, variant, tensors);
    for layer in &mut spec.layers {
        layer.arrangement = Arrangement::Parallel;
    }
    spec.head = core.output_head(NAMES.head, &spec.embedding.weight, true, tensors);
    Ok(spec)
}
