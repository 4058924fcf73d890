//! Ministral 8B: as Mistral, with a window for the layers that `layer_types` names; for all where it is absent.
//!
//! Source: transformers 5.24 `models/ministral`.

use crate::config::{Config, Stored};
use crate::names::{Core, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Tensors, mistral, windows};

pub(crate) const FAMILY: Family = Family {
    model_type: "ministral",
    architecture: "MinistralForCausalLM",
    prefix: "model.",
    summary: "Ministral 8B",
    refuses: &["no head_dim"],
    irrelevant: &[],
    read,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    if !matches!(config.size("head_dim")?, Stored::Value(_)) {
        return Err(config.error("head_dim", "is missing, and this class does not compute it"));
    }
    let core = Core::read(config, &mistral::DEFAULTS)?;
    let window = windows::width(config, Some(4096))?;
    let slides = windows::sliding_layers(config, core.layers, |_| window.is_some())?;
    let variant = Variant {
        windows: windows::windows(config, &slides, window)?,
        ..Variant::llama(rope::read(config, &RopeRules::of(&core), FAMILY.model_type, options)?)
    };
    Ok(pre_norm(&core, variant, tensors))
}
