//! CodeGen: GPT-J with one matrix for queries, values and keys, in this order within each of four blocks.
//!
//! Source: transformers 5.24 `models/codegen`.

use crate::config::Config;
use crate::gptj;
use crate::names::linear;
use crate::registry::{Family, Options};
use crate::spec::{Part, Projections};
use crate::{DecoderSpec, Error, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "codegen",
    architecture: "CodeGenForCausalLM",
    prefix: "transformer.",
    summary: "CodeGen, 350M to 16B",
    refuses: &[],
    irrelevant: gptj::FAMILY.irrelevant,
    read,
};

/// `mp_num`, fixed in the class.
const BLOCKS: u64 = 4;

fn read(config: &Config<'_>, tensors: &Tensors<'_>, _: &Options) -> Result<DecoderSpec, Error> {
    let core = gptj::core(config)?;
    if !core.hidden_size.is_multiple_of(BLOCKS) {
        return Err(config.error("n_embd", format!("is {}, no multiple of the {BLOCKS} blocks of the projection", core.hidden_size)));
    }
    gptj::decoder(config, tensors, &core, |prefix| {
        let linear = linear(&format!("{prefix}.qkv_proj"), &core.fused(), &core.hidden(), false);
        Projections::Fused { linear, blocks: BLOCKS, order: [Part::Query, Part::Value, Part::Key] }
    })
}
