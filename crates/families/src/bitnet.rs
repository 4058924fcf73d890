//! BitNet, unquantised: as Llama with norms within attention and within the feed-forward part.
//!
//! Published checkpoints carry a `quantization_config` and are refused. Source: transformers 5.24 `models/bitnet`.

use crate::config::Config;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, NormStyle, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "bitnet",
    architecture: "BitNetForCausalLM",
    prefix: "model.",
    summary: "BitNet b1.58 without its quantisation",
    refuses: &["quantization_config, which all published checkpoints have"],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 128_256,
    hidden_size: 2560,
    intermediate_size: 6912,
    layers: 30,
    heads: 20,
    kv_heads: Some(5),
    head_dim: HeadDim::RoundedDown,
    max_positions: 2048,
    eps: ("rms_norm_eps", 1e-5),
    activation: ("hidden_act", "relu2"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let width = core.heads * core.head_dim;
    if width != core.hidden_size {
        let problem = format!("gives heads of {width} together; the norm after attention is over hidden_size {}", core.hidden_size);
        return Err(config.error("head_dim", problem));
    }
    let rules = RopeRules { theta: 500_000.0, ..RopeRules::of(&core) };
    let bias = config.flag_or("attention_bias", false)?;
    let variant = Variant {
        attention_bias: if bias { AttentionBias::All } else { AttentionBias::None },
        ..Variant::llama(rope::read(config, &rules, FAMILY.model_type, options)?)
    };
    let mut spec = pre_norm(&core, variant, tensors);
    let (hidden, intermediate) = (core.hidden(), core.intermediate());
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        let norm = |part: &str, width| Some(NormStyle::Rms.norm(&format!("model.layers.{index}.{part}"), width, core.eps));
        layer.attention.merged_norm = norm("self_attn.attn_sub_norm", &hidden);
        layer.mlp.inner_norm = norm("mlp.ffn_sub_norm", &intermediate);
    }
    Ok(spec)
}
