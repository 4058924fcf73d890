//! Apertus 1.5, text only: Apertus with a larger vocabulary, of which the head may give a part.
//!
//! Source: transformers 5.24 `models/apertus1p5` (`Apertus1p5TextForCausalLM`).

use crate::config::{Config, Stored};
use crate::names::CoreDefaults;
use crate::registry::{Family, Options};
use crate::{DecoderSpec, Error, Tensors, apertus};

pub(crate) const FAMILY: Family = Family {
    model_type: "apertus1p5_text",
    architecture: "Apertus1p5TextForCausalLM",
    prefix: "model.",
    summary: "Apertus 1.5, text only",
    refuses: &["output_vocab_size other than vocab_size"],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults { vocab_size: 266_752, ..apertus::DEFAULTS };

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let spec = apertus::decoder(config, &DEFAULTS, FAMILY.model_type, tensors, options)?;
    match config.size("output_vocab_size")? {
        Stored::Value(rows) if rows != spec.vocab_size => {
            let problem = format!("is {rows}; supported: a head for all of vocab_size {}", spec.vocab_size);
            Err(config.error("output_vocab_size", problem))
        }
        _ => Ok(spec),
    }
}
