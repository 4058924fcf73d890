//! Attention by ONNX Runtime's GroupQueryAttention, rotation outside: rows may be padded anywhere, and the cache may be a buffer that the
//! runtime writes into.
//!
//! The operator counts columns, not tokens: every row is said to be as long as the batch, and what is padding or beyond the window is taken
//! out by a bias on the scores. With its rotation inside it would turn a token by its column, and padding on the left would be wrong.

use std::collections::BTreeMap;

use plansmith_families::{Attention, DecoderSpec};
use plansmith_graph::{Dim, Graph, GroupQuery, Value, lowest};
use plansmith_tensor::DType;

use super::mask::Masks;
use crate::context::{Context, Past, Present};
use crate::{Dialect, Error};

/// What every layer's operator reads.
pub(crate) struct Groups {
    last_columns: Value,
    columns: Value,
    /// By window.
    biases: BTreeMap<Option<u64>, Value>,
}

/// What one layer's operator reads besides queries, keys and values.
#[derive(Clone, Copy)]
pub(crate) struct Group {
    last_columns: Value,
    columns: Value,
    bias: Value,
}

/// Why a layer is not given to ONNX Runtime's operator; `None` where it is. Its CPU kernel refuses other head sizes (1.32, measured);
/// biases by distance and sinks have places in it that we have not tried.
fn refusal(attention: &Attention) -> Option<String> {
    if !attention.head_dim.is_multiple_of(16) {
        return Some(format!("its head size {} is no multiple of 16", attention.head_dim));
    }
    if attention.alibi.is_some() {
        return Some("it has biases by distance".into());
    }
    attention.sinks.as_ref().map(|_| "it has sinks".into())
}

/// Whether every layer is computed by the operator, so that the cache may be a buffer.
pub(crate) fn takes_all(spec: &DecoderSpec, dialect: Dialect) -> bool {
    dialect == Dialect::Onnxruntime && spec.layers.iter().all(|layer| refusal(&layer.attention).is_none())
}

/// Which layers are written in the portable form though the dialect was asked for, and why; neighbours for one reason in one line.
pub(crate) fn notes(spec: &DecoderSpec, dialect: Dialect) -> Vec<String> {
    if dialect != Dialect::Onnxruntime {
        return Vec::new();
    }
    let mut runs: Vec<(usize, usize, String)> = Vec::new();
    for (index, layer) in spec.layers.iter().enumerate() {
        let Some(reason) = refusal(&layer.attention) else { continue };
        match runs.last_mut() {
            Some((_, last, known)) if *last + 1 == index && *known == reason => *last = index,
            _ => runs.push((index, index, reason)),
        }
    }
    let line = |(first, last, reason): (usize, usize, String)| {
        let layers = if first == last { format!("layer {first}") } else { format!("layers {first} to {last}") };
        format!("{layers}: written with portable operators, since {reason}; the cache cannot be a shared buffer")
    };
    runs.into_iter().map(line).collect()
}

/// What the operators of all layers share; `None` where no layer has one.
pub(crate) fn shared(g: &mut Graph, cx: &Context<'_>, spec: &DecoderSpec, masks: &Masks) -> Result<Option<Groups>, Error> {
    let by_operator = |attention: &&Attention| cx.dialect == Dialect::Onnxruntime && refusal(attention).is_none();
    let windows: Vec<Option<u64>> =
        spec.layers.iter().map(|layer| &layer.attention).filter(by_operator).map(|attention| attention.window).collect();
    if windows.is_empty() {
        return Ok(None);
    }
    g.scope("model/group_query", |g| {
        let columns = g.size_scalar(&cx.dims.total)?;
        let columns = g.cast(columns, DType::I32)?;
        let last = g.sub(columns, 1)?;
        let last_columns = g.expand(last, std::slice::from_ref(&cx.dims.batch))?;
        let mut biases = BTreeMap::new();
        for (window, mask) in masks.all().filter(|(window, _)| windows.contains(window)) {
            let seen = g.cast(mask, cx.compute)?;
            let unseen = g.sub(1.0, seen)?;
            biases.insert(window, g.mul(unseen, lowest(cx.compute).unwrap_or(f64::MIN))?);
        }
        Ok(Some(Groups { last_columns, columns, biases }))
    })
}

impl Groups {
    /// For a layer that the operator computes.
    pub(crate) fn of(&self, attention: &Attention) -> Option<Group> {
        let bias = *self.biases.get(&attention.window).filter(|_| refusal(attention).is_none())?;
        Some(Group { last_columns: self.last_columns, columns: self.columns, bias })
    }
}

/// Attention of queries, keys and values, each `[batch, heads, seq, head_dim]`; returns `[tokens, heads × head_dim]`.
pub(crate) fn apply(
    g: &mut Graph,
    cx: &Context<'_>,
    spec: &Attention,
    past: Past,
    group: Group,
    [query, key, value]: [Value; 3],
) -> Result<(Value, Present), Error> {
    let merged = |g: &mut Graph, x: Value, heads: u64| -> Result<Value, Error> {
        let x = g.transpose(x, &[0, 2, 1, 3])?;
        Ok(g.reshape(x, &[cx.dims.batch.clone(), cx.dims.sequence.clone(), Dim::from(heads * spec.head_dim)])?)
    };
    let with = GroupQuery {
        query: merged(g, query, spec.heads)?,
        key: merged(g, key, spec.kv_heads)?,
        value: merged(g, value, spec.kv_heads)?,
        past_key: past.key,
        past_value: past.value,
        last_columns: group.last_columns,
        columns: group.columns,
        bias: group.bias,
        heads: spec.heads,
        kv_heads: spec.kv_heads,
        scale: spec.scale as f32,
        softcap: spec.softcap.map(|cap| cap as f32),
    };
    let [mixed, key, value] = g.group_query_attention(with)?;
    let mixed = g.reshape(mixed, &[cx.dims.tokens.clone(), Dim::from(spec.heads * spec.head_dim)])?;
    Ok((mixed, Present { key, value }))
}
