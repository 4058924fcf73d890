//! Tensor names, the sizes behind their shapes, and the decoder that most checkpoints are a variant of.

use crate::config::{Config, Stored};
use crate::spec::{
    Arrangement, Attention, DecoderSpec, Embedding, Gain, Head, HeadNorms, Join, Layer, Linear, LinearLayout, Mlp, MlpInput, Norm,
    NormExtent, NormKind, NormOrder, Projections, Rope, Weight,
};
use crate::{Activation, Error, Tensors, activation};

/// A dimension and the keys that gave it, for errors.
#[derive(Debug, Clone)]
pub(crate) struct Size {
    pub(crate) value: u64,
    because: String,
}

impl Size {
    pub(crate) fn new(value: u64, because: impl Into<String>) -> Self {
        Self { value, because: because.into() }
    }

    /// `count` of these, one after another.
    pub(crate) fn times(&self, count: u64) -> Self {
        Self { value: count * self.value, because: format!("{count} × {}", self.because) }
    }
}

/// The tensor `name` of these dimensions.
pub(crate) fn weight(name: impl Into<String>, sizes: &[&Size]) -> Weight {
    let because: Vec<_> = sizes.iter().map(|size| size.because.as_str()).collect();
    Weight { name: name.into(), shape: sizes.iter().map(|size| size.value).collect(), because: because.join(" by ") }
}

/// A `nn.Linear`: `{name}.weight` of `[out, input]`, and `{name}.bias`.
pub(crate) fn linear(name: &str, out: &Size, input: &Size, bias: bool) -> Linear {
    let bias = bias.then(|| weight(format!("{name}.bias"), &[out]));
    Linear { weight: weight(format!("{name}.weight"), &[out, input]), layout: LinearLayout::OutIn, bias }
}

/// A `Conv1D` of transformers: `{name}.weight` of `[input, out]`, and `{name}.bias`.
pub(crate) fn conv1d(name: &str, out: &Size, input: &Size, bias: bool) -> Linear {
    let bias = bias.then(|| weight(format!("{name}.bias"), &[out]));
    Linear { weight: weight(format!("{name}.weight"), &[input, out]), layout: LinearLayout::InOut, bias }
}

/// What kind of norm a class uses, and what is stored of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NormStyle {
    /// Root mean square, weight.
    Rms,
    /// Root mean square, factor `1 + weight`.
    RmsPlusOne,
    /// Root mean square, nothing stored.
    RmsBare,
    /// Layer norm, weight and bias.
    Layer,
    /// Layer norm, weight only.
    LayerNoBias,
    /// Layer norm, nothing stored.
    LayerBare,
    /// Layer norm, factor `1 + weight`, and bias.
    LayerPlusOne,
}

impl NormStyle {
    /// The norm whose tensors are `{name}.weight` and `{name}.bias`, as far as stored.
    pub(crate) fn norm(self, name: &str, width: &Size, eps: f64) -> Norm {
        let (kind, offset, bias) = match self {
            NormStyle::Rms => (NormKind::Rms, Some(0.0), false),
            NormStyle::RmsPlusOne => (NormKind::Rms, Some(1.0), false),
            NormStyle::RmsBare => (NormKind::Rms, None, false),
            NormStyle::Layer => (NormKind::Layer, Some(0.0), true),
            NormStyle::LayerNoBias => (NormKind::Layer, Some(0.0), false),
            NormStyle::LayerBare => (NormKind::Layer, None, false),
            NormStyle::LayerPlusOne => (NormKind::Layer, Some(1.0), true),
        };
        let gain = offset.map_or(Gain::One, |offset| Gain::Weight { weight: weight(format!("{name}.weight"), &[width]), offset });
        Norm { kind, width: width.value, gain, bias: bias.then(|| weight(format!("{name}.bias"), &[width])), eps }
    }
}

/// The sizes and scalars that nearly every decoder has.
#[derive(Debug, Clone)]
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
#[derive(Clone, Copy)]
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
    /// Key and default.
    pub(crate) eps: (&'static str, f64),
    /// Key and default.
    pub(crate) activation: (&'static str, &'static str),
    pub(crate) tied: bool,
}

/// How a class finds the width of a head.
#[derive(Clone, Copy)]
pub(crate) enum HeadDim {
    /// From `head_dim`, else `hidden_size / num_attention_heads`; the class insists that this divides.
    Computed,
    /// From `head_dim`, else `hidden_size / num_attention_heads` rounded down.
    RoundedDown,
    /// From `head_dim` with a class default.
    Default(u64),
    /// From `head_dim` with a class default; `null` means `hidden_size / num_attention_heads` rounded down.
    DefaultOrQuotient(u64),
    /// Always `hidden_size / num_attention_heads`; the class does not read `head_dim`.
    Quotient,
}

/// Sets bounds that a config must keep for its tensors to fit any checkpoint.
pub(crate) const MAX_LAYERS: u64 = 4096;

impl Core {
    /// Reads the keys that Llama and most classes since have.
    pub(crate) fn read(config: &Config<'_>, defaults: &CoreDefaults) -> Result<Self, Error> {
        let hidden_size = config.size_or("hidden_size", defaults.hidden_size)?;
        let heads = config.size_or("num_attention_heads", defaults.heads)?;
        let kv_heads = match config.size("num_key_value_heads")? {
            Stored::Value(kv_heads) => kv_heads,
            Stored::Null => heads,
            Stored::Absent => defaults.kv_heads.unwrap_or(heads),
        };
        let (eps_key, eps) = defaults.eps;
        let (activation_key, activation) = defaults.activation;
        Self {
            vocab_size: config.size_or("vocab_size", defaults.vocab_size)?,
            hidden_size,
            intermediate_size: config.size_or("intermediate_size", defaults.intermediate_size)?,
            layers: config.size_or("num_hidden_layers", defaults.layers)?,
            heads,
            kv_heads,
            head_dim: head_dim(config, hidden_size, heads, defaults.head_dim)?,
            max_positions: config.size_or("max_position_embeddings", defaults.max_positions)?,
            eps: eps_of(config, eps_key, eps)?,
            activation: activation::read(config, activation_key, activation)?,
            tied: config.flag_or("tie_word_embeddings", defaults.tied)?,
        }
        .checked(config)
    }

    /// Refuses sizes that no model has; for classes that read their keys themselves too.
    pub(crate) fn checked(self, config: &Config<'_>) -> Result<Self, Error> {
        let (heads, kv_heads) = (self.heads, self.kv_heads);
        if !heads.is_multiple_of(kv_heads) {
            return Err(config.error("num_key_value_heads", format!("is {kv_heads}, which does not divide num_attention_heads {heads}")));
        }
        if self.layers > MAX_LAYERS {
            return Err(config.error("num_hidden_layers", format!("is {}, more than {MAX_LAYERS}", self.layers)));
        }
        Ok(self)
    }

    pub(crate) fn vocab(&self) -> Size {
        Size::new(self.vocab_size, format!("vocab_size {}", self.vocab_size))
    }

    pub(crate) fn hidden(&self) -> Size {
        Size::new(self.hidden_size, format!("hidden_size {}", self.hidden_size))
    }

    pub(crate) fn intermediate(&self) -> Size {
        Size::new(self.intermediate_size, format!("intermediate_size {}", self.intermediate_size))
    }

    /// `heads × head_dim`.
    pub(crate) fn queries(&self) -> Size {
        Size::new(self.heads * self.head_dim, format!("num_attention_heads {} × head_dim {}", self.heads, self.head_dim))
    }

    /// `kv_heads × head_dim`.
    pub(crate) fn keys(&self) -> Size {
        Size::new(self.kv_heads * self.head_dim, format!("num_key_value_heads {} × head_dim {}", self.kv_heads, self.head_dim))
    }

    /// Rows of a fused query, key and value projection.
    pub(crate) fn fused(&self) -> Size {
        let because = format!("({} query heads + 2 × {} key heads) × head_dim {}", self.heads, self.kv_heads, self.head_dim);
        Size::new((self.heads + 2 * self.kv_heads) * self.head_dim, because)
    }

    pub(crate) fn head(&self) -> Size {
        Size::new(self.head_dim, format!("head_dim {}", self.head_dim))
    }

    /// Scaled dot-product attention with rotation 0 and nothing else.
    pub(crate) fn attention(&self, projections: Projections, output: Linear) -> Attention {
        Attention {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            scale: (self.head_dim as f64).powf(-0.5),
            window: None,
            softcap: None,
            alibi: None,
            sinks: None,
            rope: Some(0),
            query_scale: None,
            projections,
            clip: None,
            head_norms: None,
            merged_norm: None,
            output,
        }
    }

    /// The head `name` of its own where it is stored or must be, else the embedding's matrix.
    ///
    /// A tied flag with a head of its own stored uses the head: what transformers does when the two matrices differ, and the same
    /// numbers when they do not.
    pub(crate) fn output_head(&self, name: &str, embedding: &Weight, bias: bool, tensors: &Tensors<'_>) -> Head {
        let mut own = linear(name, &self.vocab(), &self.hidden(), bias);
        if self.tied && !tensors.contains(&own.weight.name) {
            own.weight = embedding.clone();
        }
        Head { transform: None, linear: own, scale: 1.0, softcap: None }
    }

    /// The table `{name}.weight`.
    pub(crate) fn embedding(&self, name: &str) -> Embedding {
        let weight = weight(format!("{name}.weight"), &[&self.vocab(), &self.hidden()]);
        Embedding { weight, scale: 1.0, project: None, positions: None, norm: None }
    }
}

/// The epsilon of norms: 0 or more.
pub(crate) fn eps_of(config: &Config<'_>, key: &'static str, default: f64) -> Result<f64, Error> {
    match config.float_or(key, default)? {
        eps if eps < 0.0 => Err(config.error(key, format!("is {eps}, below 0"))),
        eps => Ok(eps),
    }
}

fn head_dim(config: &Config<'_>, hidden_size: u64, heads: u64, rule: HeadDim) -> Result<u64, Error> {
    let quotient = || match hidden_size / heads {
        0 => Err(config.error("hidden_size", format!("is {hidden_size}, less than num_attention_heads {heads}"))),
        quotient => Ok(quotient),
    };
    let multiple = || match hidden_size.is_multiple_of(heads) {
        false => Err(config.error("hidden_size", format!("is {hidden_size}, no multiple of num_attention_heads {heads}"))),
        true => Ok(()),
    };
    match rule {
        HeadDim::Quotient => multiple().and_then(|()| quotient()),
        HeadDim::Default(default) => config.size_or("head_dim", default),
        HeadDim::DefaultOrQuotient(default) => match config.size("head_dim")? {
            Stored::Value(head_dim) => Ok(head_dim),
            Stored::Absent => Ok(default),
            Stored::Null => quotient(),
        },
        HeadDim::Computed => {
            multiple()?;
            config.size("head_dim")?.optional().map_or_else(quotient, Ok)
        }
        HeadDim::RoundedDown => config.size("head_dim")?.optional().map_or_else(quotient, Ok),
    }
}

/// What a class calls the parts of a layer and of the model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    /// `{layers}.{index}.…`
    pub(crate) layers: &'static str,
    pub(crate) attention: &'static str,
    /// Query, key, value and output below `attention`.
    pub(crate) projections: [&'static str; 4],
    pub(crate) query_norm: &'static str,
    pub(crate) key_norm: &'static str,
    pub(crate) mlp: &'static str,
    /// Gate, up and down below `mlp`; the gate is not looked at where there is none.
    pub(crate) feed_forward: [&'static str; 3],
    pub(crate) input_norm: &'static str,
    pub(crate) mlp_norm: &'static str,
    pub(crate) embedding: &'static str,
    pub(crate) final_norm: &'static str,
    pub(crate) head: &'static str,
}

/// The names that Llama brought and most classes kept.
pub(crate) const LLAMA: Names = Names {
    layers: "model.layers",
    attention: "self_attn",
    projections: ["q_proj", "k_proj", "v_proj", "o_proj"],
    query_norm: "q_norm",
    key_norm: "k_norm",
    mlp: "mlp",
    feed_forward: ["gate_proj", "up_proj", "down_proj"],
    input_norm: "input_layernorm",
    mlp_norm: "post_attention_layernorm",
    embedding: "model.embed_tokens",
    final_norm: "model.norm",
    head: "lm_head",
};

/// Which projections of attention carry a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttentionBias {
    None,
    QueryKeyValue,
    Output,
    All,
}

/// What differs between the classes that are pre-norm decoders with separate projections.
pub(crate) struct Variant {
    pub(crate) names: Names,
    pub(crate) norm: NormStyle,
    pub(crate) attention_bias: AttentionBias,
    /// With a gate, or plain.
    pub(crate) gated: bool,
    pub(crate) mlp_bias: bool,
    /// Norms of each query and key head before rotation.
    pub(crate) head_norms: bool,
    /// The window of each layer; none beyond the end of the list.
    pub(crate) windows: Vec<Option<u64>>,
    /// Every layer uses the first.
    pub(crate) ropes: Vec<Rope>,
}

impl Variant {
    /// Llama without biases.
    pub(crate) fn llama(rope: impl Into<Option<Rope>>) -> Self {
        Self {
            names: LLAMA,
            norm: NormStyle::Rms,
            attention_bias: AttentionBias::None,
            gated: true,
            mlp_bias: false,
            head_norms: false,
            windows: Vec::new(),
            ropes: rope.into().into_iter().collect(),
        }
    }

    fn layer(&self, core: &Core, index: u64) -> Layer {
        let names = &self.names;
        let prefix = format!("{}.{index}", names.layers);
        let (hidden, intermediate) = (&core.hidden(), &core.intermediate());
        let attention = |part: &str| format!("{prefix}.{}.{part}", names.attention);
        let mlp = |part: &str| format!("{prefix}.{}.{part}", names.mlp);
        let norm = |part: &str| self.norm.norm(&format!("{prefix}.{part}"), hidden, core.eps);
        let head_norm = |part: &str| self.norm.norm(&attention(part), &core.head(), core.eps);
        let bias = matches!(self.attention_bias, AttentionBias::QueryKeyValue | AttentionBias::All);
        let output_bias = matches!(self.attention_bias, AttentionBias::Output | AttentionBias::All);
        let [query, key, value, output] = names.projections;
        let projections = Projections::Separate {
            query: linear(&attention(query), &core.queries(), hidden, bias),
            key: linear(&attention(key), &core.keys(), hidden, bias),
            value: linear(&attention(value), &core.keys(), hidden, bias),
        };
        let output = linear(&attention(output), hidden, &core.queries(), output_bias);
        let [gate, up, down] = names.feed_forward;
        let up = linear(&mlp(up), intermediate, hidden, self.mlp_bias);
        let input = match self.gated {
            true => MlpInput::Gated { gate: linear(&mlp(gate), intermediate, hidden, self.mlp_bias), up },
            false => MlpInput::Plain { up },
        };
        Layer {
            attention: Attention {
                window: self.windows.get(index as usize).copied().flatten(),
                head_norms: self.head_norms.then(|| HeadNorms {
                    query: head_norm(names.query_norm),
                    key: head_norm(names.key_norm),
                    extent: NormExtent::Head,
                    order: NormOrder::BeforeRotation,
                }),
                ..core.attention(projections, output)
            },
            attention_join: Join::pre_norm(norm(names.input_norm)),
            mlp: Mlp {
                activation: core.activation.clone(),
                input,
                inner_norm: None,
                down: linear(&mlp(down), hidden, intermediate, self.mlp_bias),
            },
            mlp_join: Join::pre_norm(norm(names.mlp_norm)),
            arrangement: Arrangement::Sequential,
        }
    }
}

/// A pre-norm decoder; a family changes in the result what its class does otherwise.
pub(crate) fn pre_norm(core: &Core, variant: Variant, tensors: &Tensors<'_>) -> DecoderSpec {
    let embedding = core.embedding(variant.names.embedding);
    DecoderSpec {
        vocab_size: core.vocab_size,
        hidden_size: core.hidden_size,
        max_positions: core.max_positions,
        layers: (0..core.layers).map(|index| variant.layer(core, index)).collect(),
        final_norm: Some(variant.norm.norm(variant.names.final_norm, &core.hidden(), core.eps)),
        head: core.output_head(variant.names.head, &embedding.weight, false, tensors),
        embedding,
        ropes: variant.ropes,
    }
}
