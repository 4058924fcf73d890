//! The names that most checkpoints share: `model.layers.N.self_attn.q_proj.weight` and so on, under a prefix.

use crate::config::{Config, Stored};
use crate::spec::{Attention, DecoderSpec, Embedding, Head, HeadNorms, Layer, Linear, Mlp, Norm, Rope, Weight};
use crate::{Activation, Error, Tensors};

/// The sizes that every pre-norm decoder with grouped queries and a gated feed-forward part has.
pub(crate) struct Core {
    pub(crate) vocab_size: u64,
    pub(crate) hidden_size: u64,
    pub(crate) intermediate_size: u64,
    pub(crate) layers: u64,
    pub(crate) heads: u64,
    pub(crate) kv_heads: u64,
    pub(crate) head_dim: u64,
    pub(crate) max_positions: u64,
    pub(crate) eps: f64,
    pub(crate) activation: Activation,
    pub(crate) tied: bool,
}

/// What a class does where a key is absent.
pub(crate) struct CoreDefaults {
    pub(crate) vocab_size: u64,
    pub(crate) hidden_size: u64,
    pub(crate) intermediate_size: u64,
    pub(crate) layers: u64,
    pub(crate) heads: u64,
    /// `None`: as many as `heads`.
    pub(crate) kv_heads: Option<u64>,
    pub(crate) head_dim: HeadDim,
    pub(crate) max_positions: u64,
}

/// How a class finds the width of a head.
#[derive(Clone, Copy)]
pub(crate) enum HeadDim {
    /// From `head_dim`, else `hidden_size / num_attention_heads`; the class insists that this divides.
    Computed,
    /// From `head_dim` with a class default.
    Default(u64),
}

/// Sets bounds that a config must keep for its tensors to fit any checkpoint.
const MAX_LAYERS: u64 = 4096;

impl Core {
    pub(crate) fn read(config: &Config<'_>, defaults: &CoreDefaults) -> Result<Self, Error> {
        let size = |key, default| config.or_default(key, config.size(key)?, default);
        let hidden_size = size("hidden_size", defaults.hidden_size)?;
        let heads = size("num_attention_heads", defaults.heads)?;
        let kv_heads = match config.size("num_key_value_heads")? {
            Stored::Value(kv_heads) => kv_heads,
            Stored::Null => heads,
            Stored::Absent => defaults.kv_heads.unwrap_or(heads),
        };
        if !heads.is_multiple_of(kv_heads) {
            return Err(config.error("num_key_value_heads", format!("is {kv_heads}, which does not divide num_attention_heads {heads}")));
        }
        let head_dim = match (config.size("head_dim")?, defaults.head_dim) {
            (Stored::Value(head_dim), HeadDim::Default(_)) => head_dim,
            (Stored::Absent, HeadDim::Default(head_dim)) => head_dim,
            (Stored::Null, HeadDim::Default(_)) => return Err(config.error("head_dim", "is null, which transformers refuses here")),
            (_, HeadDim::Computed) if !hidden_size.is_multiple_of(heads) => {
                return Err(config.error("hidden_size", format!("is {hidden_size}, no multiple of num_attention_heads {heads}")));
            }
            (stored, HeadDim::Computed) => stored.optional().unwrap_or(hidden_size / heads),
        };
        if !head_dim.is_multiple_of(2) {
            return Err(config.error("head_dim", format!("is {head_dim}; rotation needs an even one")));
        }
        let layers = size("num_hidden_layers", defaults.layers)?;
        if layers > MAX_LAYERS {
            return Err(config.error("num_hidden_layers", format!("is {layers}, more than {MAX_LAYERS}")));
        }
        let eps = config.or_default("rms_norm_eps", config.float("rms_norm_eps")?, 1e-6)?;
        if eps < 0.0 {
            return Err(config.error("rms_norm_eps", format!("is {eps}, below 0")));
        }
        Ok(Self {
            vocab_size: size("vocab_size", defaults.vocab_size)?,
            hidden_size,
            intermediate_size: size("intermediate_size", defaults.intermediate_size)?,
            layers,
            heads,
            kv_heads,
            head_dim,
            max_positions: size("max_position_embeddings", defaults.max_positions)?,
            eps,
            activation: activation(config)?,
            tied: config.or_default("tie_word_embeddings", config.flag("tie_word_embeddings")?, false)?,
        })
    }
}

fn activation(config: &Config<'_>) -> Result<Activation, Error> {
    match config.or_default("hidden_act", config.text("hidden_act")?, "silu")? {
        "silu" | "swish" => Ok(Activation::Silu),
        other => Err(config.error("hidden_act", format!("is `{other}`; supported for this model_type: `silu`"))),
    }
}

/// Which projections of attention carry a bias.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttentionBias {
    None,
    QueryKeyValue,
    All,
}

/// What differs between the classes that share these names.
pub(crate) struct Variant {
    pub(crate) attention_bias: AttentionBias,
    pub(crate) mlp_bias: bool,
    pub(crate) head_norms: bool,
    /// The window of each layer, or one entry for all.
    pub(crate) windows: Vec<Option<u64>>,
    pub(crate) rope: Rope,
}

struct Namer<'a> {
    core: &'a Core,
    variant: &'a Variant,
}

impl Namer<'_> {
    fn linear(&self, name: String, rows: (u64, &str), columns: (u64, &str), bias: bool) -> Linear {
        let weight =
            Weight { name: format!("{name}.weight"), shape: vec![rows.0, columns.0], because: format!("{} by {}", rows.1, columns.1) };
        let bias = bias.then(|| Weight { name: format!("{name}.bias"), shape: vec![rows.0], because: rows.1.to_owned() });
        Linear { weight, bias }
    }

    fn norm(&self, name: String, width: (u64, &str)) -> Norm {
        Norm { weight: Weight { name: format!("{name}.weight"), shape: vec![width.0], because: width.1.to_owned() }, eps: self.core.eps }
    }

    fn layer(&self, index: usize) -> Layer {
        let (core, variant) = (self.core, self.variant);
        let prefix = format!("model.layers.{index}");
        let hidden = (core.hidden_size, &*format!("hidden_size {}", core.hidden_size));
        let intermediate = (core.intermediate_size, &*format!("intermediate_size {}", core.intermediate_size));
        let queries = (core.heads * core.head_dim, &*format!("num_attention_heads {} × head_dim {}", core.heads, core.head_dim));
        let keys = (core.kv_heads * core.head_dim, &*format!("num_key_value_heads {} × head_dim {}", core.kv_heads, core.head_dim));
        let head = (core.head_dim, &*format!("head_dim {}", core.head_dim));
        let qkv_bias = variant.attention_bias != AttentionBias::None;
        let attention = |part: &str| format!("{prefix}.self_attn.{part}");
        let mlp = |part: &str, rows, columns| self.linear(format!("{prefix}.mlp.{part}"), rows, columns, variant.mlp_bias);
        Layer {
            input_norm: self.norm(format!("{prefix}.input_layernorm"), hidden),
            attention: Attention {
                heads: core.heads,
                kv_heads: core.kv_heads,
                head_dim: core.head_dim,
                scale: (core.head_dim as f64).powf(-0.5),
                window: variant.windows.get(index).copied().flatten(),
                rope: 0,
                query: self.linear(attention("q_proj"), queries, hidden, qkv_bias),
                key: self.linear(attention("k_proj"), keys, hidden, qkv_bias),
                value: self.linear(attention("v_proj"), keys, hidden, qkv_bias),
                output: self.linear(attention("o_proj"), hidden, queries, variant.attention_bias == AttentionBias::All),
                head_norms: variant
                    .head_norms
                    .then(|| HeadNorms { query: self.norm(attention("q_norm"), head), key: self.norm(attention("k_norm"), head) }),
            },
            post_attention_norm: self.norm(format!("{prefix}.post_attention_layernorm"), hidden),
            mlp: Mlp {
                activation: core.activation,
                gate: mlp("gate_proj", intermediate, hidden),
                up: mlp("up_proj", intermediate, hidden),
                down: mlp("down_proj", hidden, intermediate),
            },
        }
    }
}

/// The spec of a pre-norm decoder whose tensors have these names.
///
/// A tied flag with a head of its own stored uses the head: what transformers does when the two matrices differ, and the same
/// numbers when they do not.
pub(crate) fn pre_norm(core: &Core, variant: Variant, tensors: &Tensors<'_>) -> DecoderSpec {
    let namer = Namer { core, variant: &variant };
    let hidden = (core.hidden_size, &*format!("hidden_size {}", core.hidden_size));
    let vocab = (core.vocab_size, &*format!("vocab_size {}", core.vocab_size));
    let embedding = namer.linear("model.embed_tokens".into(), vocab, hidden, false);
    let own_head = namer.linear("lm_head".into(), vocab, hidden, false);
    let shares = core.tied && !tensors.contains(&own_head.weight.name);
    DecoderSpec {
        vocab_size: core.vocab_size,
        hidden_size: core.hidden_size,
        max_positions: core.max_positions,
        layers: (0..core.layers as usize).map(|index| namer.layer(index)).collect(),
        final_norm: namer.norm("model.norm".into(), hidden),
        head: Head { linear: if shares { embedding.clone() } else { own_head } },
        embedding: Embedding { weight: embedding.weight },
        ropes: vec![variant.rope.clone()],
    }
}
