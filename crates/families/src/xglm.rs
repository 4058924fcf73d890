//! XGLM: OPT's layers, an embedding scaled by √d_model, sinusoidal positions from 2 on.
//!
//! Source: transformers 5.24 `models/xglm`.

use crate::config::{Config, Stored};
use crate::gpt::{self, Intermediate, SizeKeys};
use crate::names::{Core, NormStyle};
use crate::opt::{self, NormPlace, OFFSET};
use crate::registry::{Family, Options};
use crate::spec::Positions;
use crate::{DecoderSpec, Error, Tensors, activation};

pub(crate) const FAMILY: Family = Family {
    model_type: "xglm",
    architecture: "XGLMForCausalLM",
    prefix: "model.",
    summary: "XGLM 564M to 7.5B, InCoder",
    refuses: &["pad_token_id of 2 or more"],
    irrelevant: &["init_std"],
    read,
};

const KEYS: SizeKeys = SizeKeys {
    vocab_size: 256_008,
    hidden_size: ("d_model", Some("hidden_size"), 1024),
    layers: ("num_layers", Some("num_hidden_layers"), 24),
    heads: ("attention_heads", Some("num_attention_heads"), 16),
    max_positions: ("max_position_embeddings", None, 2048),
    intermediate_size: Intermediate::Key("ffn_dim", 4096),
    tied: true,
};

fn read(config: &Config<'_>, tensors: &Tensors<'_>, _: &Options) -> Result<DecoderSpec, Error> {
    let core = KEYS.read(config, opt::EPS, activation::read(config, "activation_function", "gelu")?)?;
    let mut embedding = core.embedding("model.embed_tokens");
    let head = core.output_head("lm_head", &embedding.weight, false, tensors);
    embedding.positions = Some(positions(config, &core)?);
    if config.flag_or("scale_embedding", true)? {
        embedding.scale = (core.hidden_size as f64).sqrt();
    }
    let final_norm = NormStyle::Layer.norm("model.layer_norm", &core.hidden(), core.eps);
    let layer = |index: u64| opt::layer(&core, &format!("model.layers.{index}"), true, NormStyle::Layer, NormPlace::Before);
    Ok(gpt::decoder(&core, embedding, Vec::new(), layer, Some(final_norm), head))
}

/// `10000^(−i / (d_model / 2 − 1))` radians a position.
fn positions(config: &Config<'_>, core: &Core) -> Result<Positions, Error> {
    let half = core.hidden_size / 2;
    if half < 2 || !core.hidden_size.is_multiple_of(2) {
        return Err(config.error("d_model", format!("is {}; sinusoidal positions need an even number from 4", core.hidden_size)));
    }
    // The class zeroes the row of this id; the first rows are no position's.
    if let Stored::Value(pad) = config.count("pad_token_id")?
        && pad >= OFFSET
    {
        let problem = format!("is {pad}, whose row of the position table the class zeroes; supported: 0 and 1");
        return Err(config.error("pad_token_id", problem));
    }
    let step = -(10_000f64.ln() / (half - 1) as f64) as f32;
    let frequencies = (0..half).map(|index| f64::from(index as f32 * step).exp() as f32).collect();
    Ok(Positions::Sinusoidal { frequencies, offset: OFFSET })
}
