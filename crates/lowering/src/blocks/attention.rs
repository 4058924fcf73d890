//! Grouped-query attention over an explicit cache.

use plansmith_families::Attention;
use plansmith_graph::{AttentionOptions, Dim, Graph, Value};
use plansmith_tensor::DType;

use super::norm;
use super::rope::{Rotation, rotate};
use crate::context::{Context, Past, Present};
use crate::{Error, Form};

/// What a layer's attention reads besides the residual stream.
pub(crate) struct LayerInputs {
    pub(crate) past: Past,
    /// As [`super::mask::Masks`] gives it.
    pub(crate) mask: Value,
    pub(crate) rotation: Rotation,
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
        let query = cx.linear(g, "q_proj", &spec.query, x)?;
        let key = cx.linear(g, "k_proj", &spec.key, x)?;
        let value = cx.linear(g, "v_proj", &spec.value, x)?;
        let mut query = split_heads(g, cx, spec, spec.heads, query)?;
        let mut key = split_heads(g, cx, spec, spec.kv_heads, key)?;
        let value = split_heads(g, cx, spec, spec.kv_heads, value)?;
        if let Some(norms) = &spec.head_norms {
            query = norm::apply(g, cx, "q_norm", &norms.query, query)?;
            key = norm::apply(g, cx, "k_norm", &norms.key, key)?;
        }
        let query = transposed(g, query)?;
        let (key, value) = (transposed(g, key)?, transposed(g, value)?);
        let (query, key) = (rotate(g, cx, inputs.rotation, query)?, rotate(g, cx, inputs.rotation, key)?);
        let present = Present { key: g.concat(&[inputs.past.key, key], 2)?, value: g.concat(&[inputs.past.value, value], 2)? };
        let mixed = match cx.form {
            Form::Composite => {
                let options = AttentionOptions { scale: Some(spec.scale as f32), ..AttentionOptions::default() };
                g.attention(query, present.key, present.value, Some(inputs.mask), options)?
            }
            Form::Primitive => primitive(g, cx, spec, query, present, inputs.mask)?,
        };
        let mixed = g.transpose(mixed, &[0, 2, 1, 3])?;
        let merged = g.reshape(mixed, &[cx.dims.tokens.clone(), Dim::from(spec.heads * spec.head_dim)])?;
        Ok(Attended { output: cx.linear(g, "o_proj", &spec.output, merged)?, present })
    })
}

/// `[tokens, heads × head_dim]` to `[batch, seq, heads, head_dim]`.
fn split_heads(g: &mut Graph, cx: &Context<'_>, spec: &Attention, heads: u64, x: Value) -> Result<Value, Error> {
    let dims = [cx.dims.batch.clone(), cx.dims.sequence.clone(), Dim::from(heads), Dim::from(spec.head_dim)];
    Ok(g.reshape(x, &dims)?)
}

/// `[batch, seq, heads, head_dim]` to `[batch, heads, seq, head_dim]`.
fn transposed(g: &mut Graph, x: Value) -> Result<Value, Error> {
    Ok(g.transpose(x, &[0, 2, 1, 3])?)
}

/// MatMul, mask, Softmax, MatMul; softmax in fp32. Returns `[batch, heads, seq, head_dim]`.
///
/// The query heads of one key head are laid out as rows of one matrix, so that no key or value is repeated.
fn primitive(g: &mut Graph, cx: &Context<'_>, spec: &Attention, query: Value, present: Present, mask: Value) -> Result<Value, Error> {
    let group = spec.heads / spec.kv_heads;
    let rows = &cx.dims.sequence * group;
    let (batch, kv_heads, head_dim) = (cx.dims.batch.clone(), Dim::from(spec.kv_heads), Dim::from(spec.head_dim));
    let query = g.mul(query, spec.scale)?;
    let query = g.reshape(query, &[batch.clone(), kv_heads, rows, head_dim.clone()])?;
    let key = g.transpose(present.key, &[0, 1, 3, 2])?;
    let scores = g.matmul(query, key)?;
    let scores = g.cast(scores, DType::F32)?;
    let masked = g.select(mask, scores, f64::from(f32::MIN))?;
    let weights = g.softmax(masked, -1)?;
    let weights = g.cast(weights, cx.compute)?;
    let mixed = g.matmul(weights, present.value)?;
    let dims = [batch, Dim::from(spec.heads), cx.dims.sequence.clone(), head_dim];
    Ok(g.reshape(mixed, &dims)?)
}
