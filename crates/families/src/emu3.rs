//! Emu3, its language model alone: Llama's mathematics, read from `text_config`. What makes images is no part of this class.
//!
//! Source: transformers 5.24 `models/emu3` (`Emu3ForCausalLM`).

use crate::config::Config;
use crate::names::{CoreDefaults, HeadDim};
use crate::registry::{Family, Options};
use crate::{DecoderSpec, Error, Tensors, llama};

pub(crate) const FAMILY: Family = Family {
    model_type: "emu3",
    architecture: "Emu3ForCausalLM",
    prefix: "model.",
    summary: "Emu3, text only",
    refuses: &[],
    irrelevant: &["image_token_id", "tie_word_embeddings", "vocabulary_map", "vq_config"],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 184_622,
    hidden_size: 4096,
    intermediate_size: 14_336,
    layers: 32,
    heads: 32,
    kv_heads: Some(8),
    head_dim: HeadDim::RoundedDown,
    max_positions: 9216,
    eps: ("rms_norm_eps", 1e-5),
    activation: ("hidden_act", "silu"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let text = config.object("text_config", "text_config.")?.optional().ok_or_else(|| config.error("text_config", "is missing"))?;
    let keys = llama::Keys { theta: 1_000_000.0, ..llama::Keys::default() };
    let spec = llama::decoder(&text, &DEFAULTS, keys, FAMILY.model_type, tensors, options)?;
    text.finish(FAMILY.model_type, &[], &options.allow_unknown_config)?;
    Ok(spec)
}
