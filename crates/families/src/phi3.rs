//! Phi-3, Phi-3.5 and Phi-4-mini: one matrix for query, key and value and one for gate and up; part of each head rotated, by LongRoPE
//! where the context was extended; a window on every layer where the config has one.
//!
//! Source: transformers 5.24 `models/phi3`.

use crate::config::{Config, Stored};
use crate::names::{Core, CoreDefaults, HeadDim, LLAMA, Variant, linear, pre_norm};
use crate::registry::{Family, Options};
use crate::rope::{self, RopeRules};
use crate::{DecoderSpec, Error, MlpInput, Part, Projections, Tensors, windows};

pub(crate) const FAMILY: Family = Family {
    model_type: "phi3",
    architecture: "Phi3ForCausalLM",
    prefix: "model.",
    summary: "Phi-3, Phi-3.5, Phi-4-mini and Phi-4, dense and text only",
    // The published checkpoints bring code of their own for the class that transformers has; what it reads beyond that has no effect.
    refuses: &["rotations other than default and longrope"],
    irrelevant: &["attention_bias", "auto_map", "full_attn_mod", "interpolate_factor", "lm_head_bias", "mlp_bias"],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 32_064,
    hidden_size: 3072,
    intermediate_size: 8192,
    layers: 32,
    heads: 32,
    kv_heads: None,
    head_dim: HeadDim::RoundedDown,
    max_positions: 4096,
    eps: ("rms_norm_eps", 1e-5),
    activation: ("hidden_act", "silu"),
    tied: false,
};

/// The class default of `original_max_position_embeddings`.
const ORIGINAL_POSITIONS: u64 = 4096;

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    let core = Core::read(config, &DEFAULTS)?;
    check_rope(config)?;
    let rules = RopeRules { partial: Some(1.0), original_positions: Some(ORIGINAL_POSITIONS), ..RopeRules::of(&core) };
    let variant = Variant {
        windows: vec![windows::width(config, None)?; core.layers as usize],
        ..Variant::llama(rope::read(config, &rules, FAMILY.model_type, options)?)
    };
    let mut spec = pre_norm(&core, variant, tensors);
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        let name = format!("{}.{index}.self_attn.qkv_proj", LLAMA.layers);
        let order = [Part::Query, Part::Key, Part::Value];
        layer.attention.projections = Projections::Fused { linear: linear(&name, &core.fused(), &core.hidden(), false), blocks: 1, order };
    }
    fuse_gates(&mut spec, &core);
    Ok(spec)
}

/// Makes the feed-forward parts read gate and up from one matrix `gate_up_proj` without a bias.
pub(crate) fn fuse_gates(spec: &mut DecoderSpec, core: &Core) {
    for (index, layer) in spec.layers.iter_mut().enumerate() {
        let name = format!("{}.{index}.mlp.gate_up_proj", LLAMA.layers);
        layer.mlp.input = MlpInput::FusedGated { gate_up: linear(&name, &core.intermediate().times(2), &core.hidden(), false) };
    }
}

/// The class knows two types of rotation, and takes the original length from beside the object even where that is the class default.
fn check_rope(config: &Config<'_>) -> Result<(), Error> {
    for (key, path) in [("rope_parameters", "rope_parameters."), ("rope_scaling", "rope_scaling.")] {
        let Some(object) = config.object(key, path)?.optional() else { continue };
        let kind = object.text("rope_type")?.optional().or(object.text("type")?.optional());
        if let Some(kind) = kind.filter(|kind| !matches!(*kind, "default" | "longrope")) {
            return Err(object.error("rope_type", format!("is `{kind}`; supported for phi3: default, longrope")));
        }
        let original = "original_max_position_embeddings";
        let outer = config.size(original)?;
        if let (Some(inner), Stored::Absent) = (object.size(original)?.optional(), outer)
            && inner != ORIGINAL_POSITIONS
        {
            let problem = format!("is {inner}, but transformers takes `{original}` beside it, which is {ORIGINAL_POSITIONS} where absent");
            return Err(object.error(original, problem));
        }
    }
    Ok(())
}
