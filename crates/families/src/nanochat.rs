//! nanochat: norms without weights (one of the embeddings too), pairs turned the other way and then normed, a plain feed-forward part,
//! capped logits.
//!
//! Source: transformers 5.24 `models/nanochat`, whose `rotate_half` has its signs flipped.

use crate::config::Config;
use crate::gemma2::cap;
use crate::names::{AttentionBias, Core, CoreDefaults, HeadDim, LLAMA, Names, NormStyle, Variant, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, Frequencies, NormOrder, Rope, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "nanochat",
    architecture: "NanoChatForCausalLM",
    prefix: "model.",
    summary: "nanochat d20, d32",
    refuses: &[],
    irrelevant: &[],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 50_304,
    hidden_size: 768,
    intermediate_size: 8192,
    layers: 12,
    heads: 6,
    kv_heads: None,
    head_dim: HeadDim::RoundedDown,
    max_positions: 2048,
    eps: ("rms_norm_eps", 1e-6),
    activation: ("hidden_act", "relu2"),
    tied: false,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    let bias = config.flag_or("attention_bias", false)?;
    let variant = Variant {
        names: Names { feed_forward: ["", "fc1", "fc2"], ..LLAMA },
        norm: NormStyle::RmsBare,
        attention_bias: if bias { AttentionBias::All } else { AttentionBias::None },
        gated: false,
        head_norms: true,
        ..Variant::llama(turned_back(rope::read(config, &RopeRules::of(&core), FAMILY.model_type, options)?))
    };
    let mut spec = pre_norm(&core, variant, tensors);
    spec.embedding.norm = Some(NormStyle::RmsBare.norm("", &core.hidden(), core.eps));
    for norms in spec.layers.iter_mut().filter_map(|layer| layer.attention.head_norms.as_mut()) {
        norms.order = NormOrder::AfterRotation;
    }
    spec.head.softcap = cap(config, "final_logit_softcapping", Some(15.0))?;
    Ok(spec)
}

fn turned_back(mut rope: Rope) -> Rope {
    let negate = |frequencies: &mut Vec<f32>| frequencies.iter_mut().for_each(|frequency| *frequency = -*frequency);
    match &mut rope.frequencies {
        Frequencies::Fixed(all) => negate(all),
        Frequencies::Switched { short, long, .. } => [short, long].into_iter().for_each(negate),
    }
    rope
}
