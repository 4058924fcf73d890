//! What the classes from before Llama share: sizes under names of their own, fused projections, plain feed-forward parts.

use crate::config::Config;
use crate::names::{Core, Size, linear};
use crate::spec::{
    Activation, Arrangement, Attention, DecoderSpec, Embedding, Head, Join, Layer, Linear, Mlp, MlpInput, Norm, Part, Positions,
    Projections, Residual, Rope,
};
use crate::{Error, names};

/// The key of a size, another name that the class answers to (`attribute_map` of transformers), and the class default.
pub(crate) type Key = (&'static str, Option<&'static str>, u64);

/// Where a class keeps its sizes, and what holds where a key is absent.
pub(crate) struct SizeKeys {
    pub(crate) vocab_size: u64,
    pub(crate) hidden_size: Key,
    pub(crate) layers: Key,
    pub(crate) heads: Key,
    pub(crate) max_positions: Key,
    pub(crate) intermediate_size: Intermediate,
    pub(crate) tied: bool,
}

/// How wide the feed-forward part is.
#[derive(Clone, Copy)]
pub(crate) enum Intermediate {
    /// As the key says, with a class default.
    Key(&'static str, u64),
    /// As the key says; `null` and absence: four times `hidden_size`.
    KeyOrFourfold(&'static str),
    /// Always four times `hidden_size`.
    Fourfold,
}

impl SizeKeys {
    /// Reads the sizes; as many key and value heads as heads, each `hidden_size / heads` wide.
    pub(crate) fn read(&self, config: &Config<'_>, eps: f64, activation: Activation) -> Result<Core, Error> {
        let hidden_size = size(config, self.hidden_size)?;
        let heads = size(config, self.heads)?;
        if !hidden_size.is_multiple_of(heads) {
            let problem = format!("is {hidden_size}, no multiple of {} {heads}", self.heads.0);
            return Err(config.error(self.hidden_size.0, problem));
        }
        let intermediate_size = match self.intermediate_size {
            Intermediate::Key(key, default) => config.size_or(key, default)?,
            Intermediate::KeyOrFourfold(key) => config.size(key)?.optional().unwrap_or(4 * hidden_size),
            Intermediate::Fourfold => 4 * hidden_size,
        };
        Core {
            vocab_size: config.size_or("vocab_size", self.vocab_size)?,
            hidden_size,
            intermediate_size,
            layers: size(config, self.layers)?,
            heads,
            kv_heads: heads,
            head_dim: hidden_size / heads,
            max_positions: size(config, self.max_positions)?,
            eps,
            activation,
            tied: config.flag_or("tie_word_embeddings", self.tied)?,
        }
        .checked(config)
    }
}

/// The size under its key or its other name; where both stand they must agree.
fn size(config: &Config<'_>, (key, alias, default): Key) -> Result<u64, Error> {
    let own = config.not_null(key, config.size(key)?)?;
    let other = match alias {
        Some(alias) => config.size(alias)?.optional().map(|value| (alias, value)),
        None => None,
    };
    match (own, other) {
        (Some(own), Some((alias, other))) if own != other => Err(config.error(alias, format!("is {other}, but `{key}` is {own}"))),
        (own, other) => Ok(own.or(other.map(|(_, value)| value)).unwrap_or(default)),
    }
}

/// One matrix for queries, keys and values, cut into as many blocks as there are heads.
pub(crate) fn fused_by_head(core: &Core, name: &str, bias: bool) -> Projections {
    fused(linear(name, &core.fused(), &core.hidden(), bias), core.heads)
}

/// One matrix for queries, keys and values, in this order within each block.
pub(crate) fn fused(linear: Linear, blocks: u64) -> Projections {
    Projections::Fused { linear, blocks, order: [Part::Query, Part::Key, Part::Value] }
}

/// Three matrices below `prefix`.
pub(crate) fn separate(core: &Core, prefix: &str, names: [&str; 3], bias: bool) -> Projections {
    let [query, key, value] = names.map(|name| format!("{prefix}.{name}"));
    let hidden = &core.hidden();
    Projections::Separate {
        query: linear(&query, &core.queries(), hidden, bias),
        key: linear(&key, &core.keys(), hidden, bias),
        value: linear(&value, &core.keys(), hidden, bias),
    }
}

/// Attention of which nothing is rotated.
pub(crate) fn unrotated(core: &Core, projections: Projections, output: Linear) -> Attention {
    Attention { rope: None, ..core.attention(projections, output) }
}

/// `down(activation(up(x)))`.
pub(crate) fn plain(core: &Core, up: Linear, down: Linear) -> Mlp {
    Mlp { activation: core.activation.clone(), input: MlpInput::Plain { up }, inner_norm: None, down }
}

/// [`plain`] with two `nn.Linear`.
pub(crate) fn plain_mlp(core: &Core, up: &str, down: &str, bias: bool) -> Mlp {
    let (hidden, intermediate) = (&core.hidden(), &core.intermediate());
    plain(core, linear(up, intermediate, hidden, bias), linear(down, hidden, intermediate, bias))
}

/// A layer that norms before each block; the first norm is attention's.
pub(crate) fn pre_norm(attention: Attention, mlp: Mlp, norms: [Norm; 2], arrangement: Arrangement) -> Layer {
    let [attention_join, mlp_join] = norms.map(Join::pre_norm);
    Layer { attention, attention_join, mlp, mlp_join, arrangement }
}

/// A layer that norms the stream after each block; the first norm is attention's.
pub(crate) fn post_norm(attention: Attention, mlp: Mlp, norms: [Norm; 2]) -> Layer {
    let [attention_join, mlp_join] =
        norms.map(|norm| Join { input_norm: None, output_norm: None, scale: 1.0, residual: Residual::Stream, stream_norm: Some(norm) });
    Layer { attention, attention_join, mlp, mlp_join, arrangement: Arrangement::Sequential }
}

/// A learned table `{name}.weight` of `max_positions + offset` rows.
pub(crate) fn learned(core: &Core, name: &str, offset: u64) -> Option<Positions> {
    let rows = core.max_positions + offset;
    let because = if offset == 0 { format!("{rows} positions") } else { format!("{} + {offset} positions", core.max_positions) };
    Some(Positions::Learned { weight: names::weight(format!("{name}.weight"), &[&Size::new(rows, because), &core.hidden()]), offset })
}

/// The whole model.
pub(crate) fn decoder(
    core: &Core,
    embedding: Embedding,
    ropes: Vec<Rope>,
    layer: impl Fn(u64) -> Layer,
    final_norm: Option<Norm>,
    head: Head,
) -> DecoderSpec {
    DecoderSpec {
        vocab_size: core.vocab_size,
        hidden_size: core.hidden_size,
        max_positions: core.max_positions,
        embedding,
        ropes,
        layers: (0..core.layers).map(layer).collect(),
        final_norm,
        head,
    }
}
