//! Helium 1: Llama with rotation in interleaved pairs and biases on query, key and value by flag.
//!
//! Source: transformers 5.24 `models/helium`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Pairing, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "helium",
    architecture: "HeliumForCausalLM",
    prefix: "model.",
    summary: "Helium 1 2B",
    refuses: &["heads × head_dim other than hidden_size"],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 48_000,
    hidden_size: 2560,
    intermediate_size: 7040,
    layers: 24,
    heads: 20,
    kv_heads: Some(20),
    head_dim: HeadDim::Default(128),
    max_positions: 4096,
    eps: ("rms_norm_eps", 1e-8),
    activation: ("hidden_act", "silu"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let rules = RopeRules { theta: 100_000.0, pairing: Pairing::Interleaved, ..RopeRules::of(&core) };
    if core.queries().value != core.hidden_size {
        let problem = format!("is {}; the class needs hidden_size / num_attention_heads, {}", core.head_dim, core.hidden_size / core.heads);
        return Err(config.error("head_dim", problem));
    }
    let bias = config.flag_or("attention_bias", false)?;
    let variant = Variant {
        attention_bias: if bias { AttentionBias::QueryKeyValue } else { AttentionBias::None },
        mlp_bias: config.flag_or("mlp_bias", false)?,
        ..Variant::llama(rope::read(config, &rules, FAMILY.model_type, options)?)
    };
    Ok(pre_norm(&core, variant, tensors))
}
