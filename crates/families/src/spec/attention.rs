//! Self-attention.

use super::{Linear, Norm, NormExtent, Weight};

/// Grouped-query attention: `heads / kv_heads` consecutive query heads share one key and value head.
///
/// In this order: projections, `clip`, head norms and rotation (see [`NormOrder`]), `query_scale`, cache, scores
/// `scale · q · kᵀ`, `softcap`, `alibi`, mask and `window`, softmax with `sinks`, values, `merged_norm`, output.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: u64,
    /// Key and value heads; divides `heads`.
    pub kv_heads: u64,
    /// Width of one head.
    pub head_dim: u64,
    /// Factor on the scores before softmax.
    pub scale: f64,
    /// With `Some(w)`, a query at column `i` sees the columns `i − w + 1 ..= i` only.
    pub window: Option<u64>,
    /// With `Some(c)`, scores become `c · tanh(score / c)`.
    pub softcap: Option<f64>,
    /// Linear bias by distance.
    pub alibi: Option<Alibi>,
    /// `[heads]`: one more score for each head, which takes part in softmax and has no value.
    pub sinks: Option<Weight>,
    /// Index into [`super::DecoderSpec::ropes`]; `None`: queries and keys are not rotated.
    pub rope: Option<usize>,
    /// Factor on rotated queries that depends on their position.
    pub query_scale: Option<PositionScale>,
    /// Query, key and value.
    pub projections: Projections,
    /// With `Some(c)`, projected queries, keys and values are clamped to `−c ..= c`.
    pub clip: Option<f64>,
    /// Norms of queries and keys.
    pub head_norms: Option<HeadNorms>,
    /// Norm of the merged heads, `[heads × head_dim]`, before `output`.
    pub merged_norm: Option<Norm>,
    /// From `heads × head_dim` to `hidden_size`.
    pub output: Linear,
}

/// How queries, keys and values are projected.
#[expect(clippy::large_enum_variant, reason = "one a layer, and never moved about")]
#[derive(Debug, Clone, PartialEq)]
pub enum Projections {
    /// Three matrices.
    Separate {
        /// To `heads × head_dim`.
        query: Linear,
        /// To `kv_heads × head_dim`.
        key: Linear,
        /// To `kv_heads × head_dim`.
        value: Linear,
    },
    /// One matrix to `(heads + 2 · kv_heads) × head_dim`.
    ///
    /// The result is `blocks` equal blocks one after another; each holds its share of all queries, `heads × head_dim / blocks` elements,
    /// and its shares of the keys and the values, part by part in `order`. One block: all queries, then all keys, then all values. As
    /// many blocks as heads: interleaved head by head. A share may end within a head.
    Fused {
        /// All three.
        linear: Linear,
        /// Divides `heads × head_dim` and `kv_heads × head_dim`.
        blocks: u64,
        /// The parts within a block.
        order: [Part; 3],
    },
}

/// A part of a fused projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the field's names")]
pub enum Part {
    Query,
    Key,
    Value,
}

/// Norms of queries and keys.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadNorms {
    /// Of queries.
    pub query: Norm,
    /// Of keys.
    pub key: Norm,
    /// Over each head, or over all heads of a token.
    pub extent: NormExtent,
    /// Before or after rotation.
    pub order: NormOrder,
}

/// When queries and keys are normed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants say it")]
pub enum NormOrder {
    BeforeRotation,
    AfterRotation,
}

/// `slopes[head] · p` is added to the score of a key: attention falls off linearly with distance, since softmax only sees differences.
///
/// Source: Press et al., "Train Short, Test Long", section 3.
#[derive(Debug, Clone, PartialEq)]
pub enum Alibi {
    /// `p` is the key's column, padding included.
    ByColumn(Vec<f32>),
    /// `p` is the number of attended columns before the key; 0 for padding.
    ByAttended(Vec<f32>),
}

impl Alibi {
    /// One slope a query head.
    pub fn slopes(&self) -> &[f32] {
        match self {
            Alibi::ByColumn(slopes) | Alibi::ByAttended(slopes) => slopes,
        }
    }
}

/// `1 + beta · ln(1 + floor(position / length))`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PositionScale {
    /// How much it grows.
    pub beta: f64,
    /// Positions of one step of the floor.
    pub length: f64,
}

impl Attention {
    pub(super) fn weights(&self) -> Vec<&Weight> {
        let mut all = Vec::new();
        match &self.projections {
            Projections::Separate { query, key, value } => all.extend([query, key, value].into_iter().flat_map(Linear::weights)),
            Projections::Fused { linear, .. } => all.extend(linear.weights()),
        }
        if let Some(norms) = &self.head_norms {
            all.extend(norms.query.weights());
            all.extend(norms.key.weights());
        }
        all.extend(&self.sinks);
        all.extend(self.merged_norm.iter().flat_map(Norm::weights));
        all.extend(self.output.weights());
        all
    }
}
