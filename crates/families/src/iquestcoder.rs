//! IQuest-Coder: Llama's class with other defaults. Clipped queries and windows, which its own code knows, are refused.
//!
//! Source: transformers 5.24 `models/iquestcoder`, `models/llama`.

use crate::config::Config;
use crate::names::{CoreDefaults, HeadDim};
use crate::registry::{Family, Options};
use crate::{DecoderSpec, Error, Tensors, llama};

pub(crate) const FAMILY: Family = Family {
    model_type: "iquestcoder",
    architecture: "LlamaForCausalLM",
    prefix: "model.",
    summary: "IQuest-Coder V1",
    refuses: &["clip_qkv", "use_sliding_window"],
    irrelevant: &["auto_map", "max_window_layers", "sliding_window"],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 76_800,
    hidden_size: 5120,
    intermediate_size: 27_648,
    layers: 80,
    heads: 40,
    kv_heads: Some(8),
    head_dim: HeadDim::DefaultOrQuotient(128),
    max_positions: 131_072,
    eps: ("rms_norm_eps", 1e-5),
    activation: ("hidden_act", "silu"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    llama::decoder(config, &DEFAULTS, llama::Keys::default(), FAMILY.model_type, tensors, options)
}
