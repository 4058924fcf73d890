//! OPT: learned positions from row 2 on, norms before or after each block, an embedding that may be narrower than the stream.
//!
//! Source: transformers 5.24 `models/opt`.

use crate::config::Config;
use crate::gpt::{self, Intermediate, SizeKeys, separate, unrotated};
use crate::names::{Core, NormStyle, Size, linear};
use crate::registry::{Family, Options};
use crate::spec::{Activation, Arrangement, HeadTransform, Layer};
use crate::{DecoderSpec, Error, Tensors, activation};

pub(crate) const FAMILY: Family = Family {
    model_type: "opt",
    architecture: "OPTForCausalLM",
    prefix: "model.",
    summary: "OPT 125M to 66B, Galactica",
    refuses: &[],
    irrelevant: &["init_std", "learned_embeddings", "scale_embeddings"],
    read,
};

const KEYS: SizeKeys = SizeKeys {
    vocab_size: 50_272,
    hidden_size: ("hidden_size", None, 768),
    layers: ("num_hidden_layers", None, 12),
    heads: ("num_attention_heads", None, 12),
    max_positions: ("max_position_embeddings", None, 2048),
    intermediate_size: Intermediate::Key("ffn_dim", 3072),
    tied: true,
};

/// What the class leaves at PyTorch's default.
pub(crate) const EPS: f64 = 1e-5;

/// Rows of the position table before the first position.
pub(crate) const OFFSET: u64 = 2;

fn read(config: &Config<'_>, tensors: &Tensors<'_>, _: &Options) -> Result<DecoderSpec, Error> {
    let core = KEYS.read(config, EPS, activation::read(config, "activation_function", "relu")?)?;
    let before = config.flag_or("do_layer_norm_before", true)?;
    let removed = config.flag_or("_remove_final_layer_norm", false)?;
    let bias = config.flag_or("enable_bias", true)?;
    let norm = if config.flag_or("layer_norm_elementwise_affine", true)? { NormStyle::Layer } else { NormStyle::LayerBare };
    let table = Core { hidden_size: config.size("word_embed_proj_dim")?.optional().unwrap_or(core.hidden_size), ..core.clone() };
    let mut embedding = table.embedding("model.decoder.embed_tokens");
    let mut head = table.output_head("lm_head", &embedding.weight, false, tensors);
    embedding.positions = gpt::learned(&core, "model.decoder.embed_positions", OFFSET);
    if table.hidden_size != core.hidden_size {
        let width = &Size::new(table.hidden_size, format!("word_embed_proj_dim {}", table.hidden_size));
        embedding.project = Some(linear("model.decoder.project_in", &core.hidden(), width, false));
        let back = linear("model.decoder.project_out", width, &core.hidden(), false);
        head.transform = Some(HeadTransform { linear: back, activation: Activation::Identity, norm: None });
    }
    let final_norm = (before && !removed).then(|| norm.norm("model.decoder.final_layer_norm", &core.hidden(), EPS));
    let place = if before { NormPlace::Before } else { NormPlace::After };
    let layer = |index: u64| layer(&core, &format!("model.decoder.layers.{index}"), bias, norm, place);
    Ok(gpt::decoder(&core, embedding, Vec::new(), layer, final_norm, head))
}

/// Where the norm of a block stands.
#[derive(Clone, Copy)]
pub(crate) enum NormPlace {
    Before,
    After,
}

/// The layer below `prefix`.
pub(crate) fn layer(core: &Core, prefix: &str, bias: bool, norm: NormStyle, place: NormPlace) -> Layer {
    let projections = separate(core, &format!("{prefix}.self_attn"), ["q_proj", "k_proj", "v_proj"], bias);
    let output = linear(&format!("{prefix}.self_attn.out_proj"), &core.hidden(), &core.queries(), bias);
    let mlp = gpt::plain_mlp(core, &format!("{prefix}.fc1"), &format!("{prefix}.fc2"), bias);
    let norms = ["self_attn_layer_norm", "final_layer_norm"].map(|name| norm.norm(&format!("{prefix}.{name}"), &core.hidden(), core.eps));
    let attention = unrotated(core, projections, output);
    match place {
        NormPlace::Before => gpt::pre_norm(attention, mlp, norms, Arrangement::Sequential),
        NormPlace::After => gpt::post_norm(attention, mlp, norms),
    }
}
