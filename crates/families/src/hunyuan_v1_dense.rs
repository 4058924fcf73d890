//! HunYuan dense: norms over query and key heads after rotation; `alpha` of a dynamic rotation stretches its base once and for all.
//!
//! Source: transformers 5.24 `models/hunyuan_v1_dense`.

use crate::config::{Config, Stored};
use crate::names::{Core, CoreDefaults, HeadDim, LLAMA, Names, Variant, pre_norm};
use crate::olmo::attention_bias;
use crate::registry::{Family, Options};
use crate::rope::{self, Outer, RopeRules};
use crate::{DecoderSpec, Error, NormOrder, Rope, Tensors};

pub(crate) const FAMILY: Family = Family {
    model_type: "hunyuan_v1_dense",
    architecture: "HunYuanDenseV1ForCausalLM",
    prefix: "model.",
    summary: "HunYuan 0.5B to 7B, dense",
    // The published checkpoints bring code of their own for the class that transformers has, and keys of the larger family.
    refuses: &["no head_dim"],
    irrelevant: &[
        "add_classification_head",
        "attention_head_dim",
        "auto_map",
        "cla_share_factor",
        "class_num",
        "dense_list",
        "enable_lm_head_fp32",
        "eod_token_id",
        "eos_id",
        "im_end_id",
        "im_newline_id",
        "im_start_id",
        "mask_init_id",
        "mlp_bias",
        "norm_type",
        "org_vocab_size",
        "pad_id",
        "pool_type",
        "qk_norm",
        "use_cla",
        "use_qk_norm",
        "use_rotary_pos_emb",
    ],
    read,
};

const DEFAULTS: CoreDefaults = CoreDefaults {
    vocab_size: 290_943,
    hidden_size: 4096,
    intermediate_size: 11_008,
    layers: 32,
    heads: 32,
    kv_heads: None,
    head_dim: HeadDim::RoundedDown,
    max_positions: 2048,
    eps: ("rms_norm_eps", 1e-5),
    activation: ("hidden_act", "silu"),
    tied: false,
};

const NAMES: Names = Names { query_norm: "query_layernorm", key_norm: "key_layernorm", ..LLAMA };

fn read(config: &Config<'_>, tensors: &Tensors<'_>, options: &Options) -> Result<DecoderSpec, Error> {
    if !matches!(config.size("head_dim")?, Stored::Value(_)) {
        return Err(config.error("head_dim", "is missing: the class computes none"));
    }
    let core = Core::read(config, &DEFAULTS)?;
    let variant = Variant {
        names: NAMES,
        attention_bias: attention_bias(config, false)?,
        head_norms: true,
        ..Variant::llama(rotation(config, &core, options)?)
    };
    let mut spec = pre_norm(&core, variant, tensors);
    for norms in spec.layers.iter_mut().filter_map(|layer| layer.attention.head_norms.as_mut()) {
        norms.order = NormOrder::AfterRotation;
    }
    Ok(spec)
}

/// As everywhere, but for `dynamic` with `alpha`: base `theta · alpha^(d / (d − 2))` for every length.
fn rotation(config: &Config<'_>, core: &Core, options: &Options) -> Result<Rope, Error> {
    let rules = RopeRules::of(core);
    for (key, path) in [("rope_parameters", "rope_parameters."), ("rope_scaling", "rope_scaling.")] {
        let Some(object) = config.object(key, path)?.optional() else { continue };
        let kind = object.text("rope_type")?.optional().or(object.text("type")?.optional());
        let Some(alpha) = object.float("alpha")?.optional().filter(|&alpha| alpha != 0.0 && kind == Some("dynamic")) else { continue };
        if alpha < 0.0 || core.head_dim <= 2 {
            return Err(object.error("alpha", format!("is {alpha} for heads of {}; above 0 and more than 2 are needed", core.head_dim)));
        }
        let outer = config.not_null("rope_theta", config.float("rope_theta")?)?;
        let inner = object.not_null("rope_theta", object.float("rope_theta")?)?;
        if let (Some(outer), Some(inner)) = (outer, inner)
            && outer != inner
        {
            return Err(config.error("rope_theta", format!("is {outer}, but `{}` is {inner}", object.name("rope_theta"))));
        }
        // Keys that published configs carry and this rotation does not use.
        let unused = ["beta_fast", "beta_slow", "factor", "mscale", "mscale_all_dim"];
        object.finish(FAMILY.model_type, &unused, &options.allow_unknown_config)?;
        let dim = core.head_dim as f64;
        let theta = inner.or(outer).unwrap_or(rules.theta) * alpha.powf(dim / (dim - 2.0));
        return rope::resolve(config, None, &Outer { theta: Some(theta), ..Outer::default() }, &rules, FAMILY.model_type, options);
    }
    rope::read(config, &rules, FAMILY.model_type, options)
}
