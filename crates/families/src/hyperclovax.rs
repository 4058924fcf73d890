//! HyperCLOVA X: as Granite with norms after the blocks too; logits are multiplied by `logits_scaling`, not divided.
//!
//! Source: transformers 5.24 `models/hyperclovax`.

use crate::config::{Config, Stored};
use crate::names::{Core, NormStyle, Variant};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Tensors, granite, llama};

pub(crate) const FAMILY: Family = Family {
    model_type: "hyperclovax",
    architecture: "HyperCLOVAXForCausalLM",
    prefix: "model.",
    summary: "HyperCLOVA X SEED Think 14B",
    refuses: &[],
    irrelevant: &["auto_map"],
    read,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &llama::DEFAULTS)?;
    let rope = rope::read(config, &RopeRules::of(&core), FAMILY.model_type, options)?;
    let scale = match config.float("attention_multiplier")? {
        Stored::Value(scale) => scale,
        Stored::Absent | Stored::Null => (core.head_dim as f64).powf(-0.5),
    };
    let mut spec = granite::multiplied(config, &core, scale, Variant::llama(rope), tensors)?;
    let post_norm = config.flag_or("use_post_norm", true)?;
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        let norm = |part| post_norm.then(|| NormStyle::Rms.norm(&format!("model.layers.{index}.{part}"), &core.hidden(), core.eps));
        layer.attention_join.output_norm = norm("post_norm1");
        layer.mlp_join.output_norm = norm("post_norm2");
    }
    spec.head.scale = config.float_or("logits_scaling", 1.0)?;
    Ok(spec)
}
