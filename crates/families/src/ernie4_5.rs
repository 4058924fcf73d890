//! ERNIE 4.5, dense: rotation in interleaved pairs, biases everywhere by flag.
//!
//! Source: transformers 5.24 `models/ernie4_5`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Pairing, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "ernie4_5",
    architecture: "Ernie4_5ForCausalLM",
    prefix: "model.",
    summary: "ERNIE 4.5 0.3B, dense",
    // The published checkpoints bring code of their own for the class that transformers has.
    refuses: &[],
    irrelevant: &["auto_map"],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 103_424,
    hidden_size: 1024,
    intermediate_size: 3072,
    layers: 18,
    heads: 16,
    kv_heads: Some(2),
    head_dim: HeadDim::DefaultOrQuotient(128),
    max_positions: 131_072,
    eps: ("rms_norm_eps", 1e-5),
    activation: ("hidden_act", "silu"),
    tied: true,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let rules = RopeRules { theta: 500_000.0, pairing: Pairing::Interleaved, ..RopeRules::of(&core) };
    let bias = config.flag("use_bias")?.optional().unwrap_or(false);
    let variant = Variant {
        attention_bias: if bias { AttentionBias::All } else { AttentionBias::None },
        mlp_bias: bias,
        ..Variant::llama(rope::read(config, &rules, FAMILY.model_type, options)?)
    };
    Ok(pre_norm(&core, variant, tensors))
}
