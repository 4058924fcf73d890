//! InternLM 3: Llama's class with other defaults and other names of the flags for biases, which must agree.
//!
//! Source: transformers 5.24 `models/internlm3` (`attribute_map`), `models/llama`.

use crate::config::Config;
use crate::names::{CoreDefaults, HeadDim, LLAMA};
use crate::registry::{Family, Options};
use crate::{DecoderSpec, Error, Tensors, llama};

pub(crate) const FAMILY: Family = Family {
    model_type: "internlm3",
    architecture: "LlamaForCausalLM",
    prefix: "model.",
    summary: "InternLM 3 8B",
    refuses: &["biases that differ"],
    irrelevant: &["auto_map"],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 128_512,
    hidden_size: 4096,
    intermediate_size: 10_240,
    layers: 48,
    heads: 32,
    kv_heads: Some(2),
    head_dim: HeadDim::DefaultOrQuotient(128),
    max_positions: 32_768,
    eps: ("rms_norm_eps", 1e-5),
    activation: ("hidden_act", "silu"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let biases @ [attention, mlp] = [config.either("attention_bias", "qkv_bias")?, config.either("mlp_bias", "bias")?];
    if config.flag_or(attention, false)? != config.flag_or(mlp, false)? {
        return Err(config.error(attention, format!("differs from `{mlp}`, which this class refuses")));
    }
    llama::decoder(config, &DEFAULTS, llama::Keys { names: LLAMA, theta: 10_000.0, biases }, FAMILY.model_type, tensors, options)
}
