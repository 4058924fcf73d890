//! VaultGemma: Gemma 2 without the norms after its blocks.
//!
//! Source: transformers 5.24 `models/vaultgemma`.

use crate::config::Config;
use crate::names::Core;
use crate::registry::{Family, Options};
use crate::{DecoderSpec, Error, Tensors, gemma2};

pub(crate) const FAMILY: Family = Family {
    model_type: "vaultgemma",
    architecture: "VaultGemmaForCausalLM",
    prefix: "model.",
    summary: "VaultGemma 1B",
    refuses: &["use_bidirectional_attention"],
    irrelevant: &["hidden_act"],
    read,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &gemma2::DEFAULTS)?;
    gemma2::alternating(config, &core, FAMILY.model_type, tensors, options)
}
