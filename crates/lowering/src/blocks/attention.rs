//! Grouped-query attention over an explicit cache.

use plansmith_families::{Attention, Norm, NormExtent, NormOrder, PositionScale};
use plansmith_graph::{AttentionOptions, Dim, Graph, Value};
use plansmith_tensor::DType;

use super::group_query::{self, Group};
use super::rope::{Rotation, rotate};
use super::{norm, projections};
use crate::context::{Context, Past, Present};
use crate::{Dialect, Error, Form};

/// What a layer's attention reads besides the residual stream.
pub(crate) struct LayerInputs {
    pub(crate) past: Past,
    /// As [`super::mask::Masks`] gives it.
    pub(crate) mask: Value,
    pub(crate) rotation: Option<Rotation>,
    /// As [`super::alibi::Biases`] gives it.
    pub(crate) bias: Option<Value>,
    /// Where the layer is computed by ONNX Runtime's own operator.
    pub(crate) group: Option<Group>,
}

/// What it gives.
pub(crate) struct Attended {
    /// `[tokens, hidden_size]`.
    pub(crate) output: Value,
    pub(crate) present: Present,
}

/// Projections, rotation, cache and attention of `x`, `[tokens, hidden_size]`.
pub(crate) fn apply(g: &mut Graph, cx: &Context<'_>, spec: &Attention, inputs: &LayerInputs, x: Value) -> Result<Attended, Error> {
    g.scope("self_attn", |g| {
        let [query, key, value] = projections::apply(g, cx, spec, x)?;
        let norms = spec.head_norms.as_ref();
        let query = heads(g, cx, spec, inputs, spec.heads, (query, norms.map(|norms| &norms.query)))?;
        let key = heads(g, cx, spec, inputs, spec.kv_heads, (key, norms.map(|norms| &norms.key)))?;
        let value = split_heads(g, cx, spec, spec.kv_heads, value)?;
        let value = g.transpose(value, &[0, 2, 1, 3])?;
        let query = match &spec.query_scale {
            None => query,
            Some(scale) => {
                let factors = position_factors(g, cx, *scale)?;
                g.mul(query, factors)?
            }
        };
        if let Some(group) = inputs.group {
            let (merged, present) = group_query::apply(g, cx, spec, inputs.past, group, [query, key, value])?;
            let merged = norm::optional(g, cx, "merged_norm", spec.merged_norm.as_ref(), merged)?;
            return Ok(Attended { output: cx.linear(g, "o_proj", &spec.output, merged)?, present });
        }
        let present = Present { key: cx.grown(g, inputs.past.key, key)?, value: cx.grown(g, inputs.past.value, value)? };
        let mixed =
            if fused(cx, spec) { composite(g, cx, spec, inputs, query, present)? } else { primitive(g, cx, spec, inputs, query, present)? };
        let mixed = g.transpose(mixed, &[0, 2, 1, 3])?;
        let merged = g.reshape(mixed, &[cx.dims.tokens.clone(), Dim::from(spec.heads * spec.head_dim)])?;
        let merged = norm::optional(g, cx, "merged_norm", spec.merged_norm.as_ref(), merged)?;
        Ok(Attended { output: cx.linear(g, "o_proj", &spec.output, merged)?, present })
    })
}

/// Whether the operator computes all that the layer asks for.
fn fused(cx: &Context<'_>, spec: &Attention) -> bool {
    cx.form == Form::Composite && spec.softcap.is_none() && spec.alibi.is_none() && spec.sinks.is_none()
}

/// Into how many rows a row of the batch is divided for the operator: one a key head, with the query heads that share it, or one for all.
///
/// TensorRT-RTX 1.7 repeats keys and values for every query head where it is not told that they are one row's (measured: three kernels
/// a layer instead of one, and keys and values of the whole past written anew at each step). Its mask is then there once a key head, so
/// that a graph for long sequences is left as it is.
pub(crate) fn divided(cx: &Context<'_>, spec: &Attention) -> u64 {
    let shared = spec.heads > spec.kv_heads && spec.kv_heads > 1;
    let mask_bytes = (2 * spec.kv_heads).saturating_mul(cx.longest.saturating_mul(cx.longest));
    if fused(cx, spec) && cx.dialect == Dialect::Tensorrt && shared && mask_bytes <= DIVIDED_MASK_LIMIT { spec.kv_heads } else { 1 }
}

/// What the masks of all key heads may take at the graph's longest sequence, in two bytes an element.
const DIVIDED_MASK_LIMIT: u64 = 1 << 30;

/// The operator of opset 23. Returns `[batch, heads, seq, head_dim]`.
fn composite(
    g: &mut Graph,
    cx: &Context<'_>,
    spec: &Attention,
    inputs: &LayerInputs,
    query: Value,
    present: Present,
) -> Result<Value, Error> {
    let options = AttentionOptions { scale: Some(spec.scale as f32), ..AttentionOptions::default() };
    let rows = divided(cx, spec);
    if rows == 1 {
        return Ok(g.attention(query, present.key, present.value, Some(inputs.mask), options)?);
    }
    let batch = &cx.dims.batch * rows;
    let divide = |g: &mut Graph, x: Value, heads: u64| {
        let dims = [batch.clone(), Dim::from(heads), g.dims(x)[2].clone(), Dim::from(spec.head_dim)];
        g.reshape(x, &dims)
    };
    let query = divide(g, query, spec.heads / rows)?;
    let (key, value) = (divide(g, present.key, 1)?, divide(g, present.value, 1)?);
    let mixed = g.attention(query, key, value, Some(inputs.mask), options)?;
    let dims = [cx.dims.batch.clone(), Dim::from(spec.heads), cx.dims.sequence.clone(), Dim::from(spec.head_dim)];
    Ok(g.reshape(mixed, &dims)?)
}

/// Queries or keys, normed and rotated: `[tokens, heads × head_dim]` to `[batch, heads, seq, head_dim]`.
fn heads(
    g: &mut Graph,
    cx: &Context<'_>,
    spec: &Attention,
    inputs: &LayerInputs,
    heads: u64,
    (x, norm): (Value, Option<&Norm>),
) -> Result<Value, Error> {
    let name = if heads == spec.heads { "q_norm" } else { "k_norm" };
    let place = spec.head_norms.as_ref().map(|norms| (norms.extent, norms.order));
    let at = |extent, order| norm.filter(|_| place == Some((extent, order)));
    let x = norm::optional(g, cx, name, at(NormExtent::AllHeads, NormOrder::BeforeRotation), x)?;
    let x = split_heads(g, cx, spec, heads, x)?;
    let mut x = norm::optional(g, cx, name, at(NormExtent::Head, NormOrder::BeforeRotation), x)?;
    x = g.transpose(x, &[0, 2, 1, 3])?;
    if let Some(rotation) = inputs.rotation {
        x = rotate(g, cx, rotation, x)?;
    }
    let Some(norm) = norm.filter(|_| place.is_some_and(|(_, order)| order == NormOrder::AfterRotation)) else { return Ok(x) };
    // Back to where the norm's last axes are.
    let tokens = g.transpose(x, &[0, 2, 1, 3])?;
    let tokens = match place {
        Some((NormExtent::AllHeads, _)) => g.reshape(tokens, &[cx.dims.tokens.clone(), Dim::from(heads * spec.head_dim)])?,
        _ => tokens,
    };
    let normed = norm::apply(g, cx, name, norm, tokens)?;
    let normed = split_heads(g, cx, spec, heads, normed)?;
    Ok(g.transpose(normed, &[0, 2, 1, 3])?)
}

/// `[tokens, heads × head_dim]` to `[batch, seq, heads, head_dim]`.
fn split_heads(g: &mut Graph, cx: &Context<'_>, spec: &Attention, heads: u64, x: Value) -> Result<Value, Error> {
    let dims = [cx.dims.batch.clone(), cx.dims.sequence.clone(), Dim::from(heads), Dim::from(spec.head_dim)];
    Ok(g.reshape(x, &dims)?)
}

/// `1 + beta · ln(1 + floor(position / length))`, `[batch, 1, seq, 1]` in the compute dtype.
fn position_factors(g: &mut Graph, cx: &Context<'_>, scale: PositionScale) -> Result<Value, Error> {
    let positions = g.unsqueeze(cx.position_ids, &[1, 3])?;
    let positions = g.cast(positions, DType::F32)?;
    let ratio = g.div(positions, scale.length)?;
    let steps = g.floor(ratio)?;
    let counted = g.add(steps, 1.0)?;
    let log = g.log(counted)?;
    let grown = g.mul(log, scale.beta)?;
    let factors = g.add(grown, 1.0)?;
    Ok(g.cast(factors, cx.compute)?)
}

/// `cap · tanh(x / cap)`.
pub(crate) fn soft_capped(g: &mut Graph, cap: f64, x: Value) -> Result<Value, plansmith_graph::Error> {
    let small = g.div(x, cap)?;
    let bounded = g.tanh(small)?;
    g.mul(bounded, cap)
}

/// MatMul, cap, bias, mask, Softmax, MatMul; softmax in fp32. Returns `[batch, heads, seq, head_dim]`.
///
/// For the products, the query heads of one key head are rows of one matrix, so that no key or value is repeated.
fn primitive(
    g: &mut Graph,
    cx: &Context<'_>,
    spec: &Attention,
    inputs: &LayerInputs,
    query: Value,
    present: Present,
) -> Result<Value, Error> {
    let (sequence, total) = (cx.dims.sequence.clone(), cx.dims.total.clone());
    let rows = &sequence * (spec.heads / spec.kv_heads);
    let (batch, kv_heads, head_dim) = (cx.dims.batch.clone(), Dim::from(spec.kv_heads), Dim::from(spec.head_dim));
    let by_head = |last: Dim| [batch.clone(), Dim::from(spec.heads), sequence.clone(), last];
    let by_group = |last: Dim| [batch.clone(), kv_heads.clone(), rows.clone(), last];
    let query = g.mul(query, spec.scale)?;
    let query = g.reshape(query, &by_group(head_dim.clone()))?;
    let key = g.transpose(present.key, &[0, 1, 3, 2])?;
    let scores = g.matmul(query, key)?;
    let scores = g.cast(scores, DType::F32)?;
    let scores = g.reshape(scores, &by_head(total.clone()))?;
    let scores = spec.softcap.map_or(Ok(scores), |cap| soft_capped(g, cap, scores))?;
    let scores = inputs.bias.map_or(Ok(scores), |bias| g.add(scores, bias))?;
    let masked = g.select(inputs.mask, scores, f64::from(f32::MIN))?;
    let weights = match &spec.sinks {
        None => g.softmax(masked, -1)?,
        Some(sinks) => {
            let sinks = cx.stored(g, sinks)?;
            let sinks = g.cast(sinks, DType::F32)?;
            let sinks = g.unsqueeze(sinks, &[0, 2, 3])?;
            let sinks = g.expand(sinks, &by_head(Dim::from(1u64)))?;
            let joined = g.concat(&[sinks, masked], 3)?;
            let shares = g.softmax(joined, -1)?;
            g.slice(shares, 3, 1, i64::MAX)?
        }
    };
    let weights = g.cast(weights, cx.compute)?;
    let weights = g.reshape(weights, &by_group(total))?;
    let mixed = g.matmul(weights, present.value)?;
    Ok(g.reshape(mixed, &by_head(head_dim))?)
}
