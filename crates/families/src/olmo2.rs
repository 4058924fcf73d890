//! OLMo 2: norms after each block instead of before, queries and keys normed over all heads at once.
//!
//! Source: transformers 5.24 `models/olmo2`.

use crate::config::Config;
use crate::names::{Core, LLAMA, Names, NormStyle, Size, Variant, pre_norm};
use crate::olmo::{self, attention_bias};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, HeadNorms, NormExtent, NormOrder, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "olmo2",
    architecture: "Olmo2ForCausalLM",
    prefix: "model.",
    summary: "OLMo 2 1B to 32B",
    refuses: &[],
    irrelevant: &[],
    read,
};

/// The norms that Llama has before the blocks, named as they are after them.
pub(crate) const NAMES: Names = Names { input_norm: "post_attention_layernorm", mlp_norm: "post_feedforward_layernorm", ..LLAMA };

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &olmo::DEFAULTS)?;
    let variant = Variant {
        names: NAMES,
        attention_bias: attention_bias(config, false)?,
        ..Variant::llama(rope::read(config, &RopeRules::of(&core), FAMILY.model_type, options)?)
    };
    let mut spec = pre_norm(&core, variant, tensors);
    norms_after(&mut spec);
    norms_over_all_heads(&mut spec, &core);
    Ok(spec)
}

/// Moves the norms before the blocks behind them.
pub(crate) fn norms_after(spec: &mut DecoderSpec) {
    for layer in &mut spec.layers {
        for join in [&mut layer.attention_join, &mut layer.mlp_join] {
            join.output_norm = join.input_norm.take();
        }
    }
}

/// Root mean square norms `q_norm` and `k_norm` over all heads of a token, before rotation.
pub(crate) fn norms_over_all_heads(spec: &mut DecoderSpec, core: &Core) {
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        let norm = |part: &str, width: &Size| NormStyle::Rms.norm(&format!("{}.{index}.self_attn.{part}", LLAMA.layers), width, core.eps);
        let (query, key) = (norm(LLAMA.query_norm, &core.queries()), norm(LLAMA.key_norm, &core.keys()));
        layer.attention.head_norms = Some(HeadNorms { query, key, extent: NormExtent::AllHeads, order: NormOrder::BeforeRotation });
    }
}
