//! GLM-4-0414 and GLM-Z1: as GLM, with norms after each block besides those before.
//!
//! Source: transformers 5.24 `models/glm4`.

use crate::config::Config;
use crate::glm;
use crate::names::{LLAMA, NormStyle};
use crate::registry::{Family, Options};
use crate::{DecoderSpec, Error, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "glm4",
    architecture: "Glm4ForCausalLM",
    prefix: "model.",
    summary: "GLM-4-0414 and GLM-Z1, 9B and 32B",
    refuses: &[],
    irrelevant: &[],
    read,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let (mut spec, core) = glm::decoder(config, tensors, options, FAMILY.model_type)?;
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        let norm = |part: &str| Some(NormStyle::Rms.norm(&format!("{}.{index}.{part}", LLAMA.layers), &core.hidden(), core.eps));
        layer.attention_join.output_norm = norm("post_self_attn_layernorm");
        layer.mlp_join.output_norm = norm("post_mlp_layernorm");
    }
    Ok(spec)
}
