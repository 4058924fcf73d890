//! The residual stream to logits.

use plansmith_families::DecoderSpec;
use plansmith_graph::{Dim, Graph, Value};
use plansmith_tensor::DType;

use super::{activation, attention, mask, norm};
use crate::Error;
use crate::context::Context;

/// Final norm and head: fp32 logits, `[batch, seq, vocab]`, or `[batch, 1, vocab]` of each row's last attended position.
pub(crate) fn apply(g: &mut Graph, cx: &Context<'_>, spec: &DecoderSpec, x: Value, last_only: bool) -> Result<Value, Error> {
    let batch = cx.dims.batch.clone();
    let (x, positions) = if last_only { (last_rows(g, cx, x)?, Dim::from(1u64)) } else { (x, cx.dims.sequence.clone()) };
    let x = g.scope("model", |g| norm::optional(g, cx, "norm", spec.final_norm.as_ref(), x))?;
    let head = &spec.head;
    let x = match &head.transform {
        None => x,
        Some(transform) => g.scope("lm_head_transform", |g| -> Result<Value, Error> {
            let dense = cx.linear(g, "dense", &transform.linear, x)?;
            let active = activation::apply(g, cx, &transform.activation, dense)?;
            norm::optional(g, cx, "norm", transform.norm.as_ref(), active)
        })?,
    };
    let logits = cx.linear(g, "lm_head", &head.linear, x)?;
    g.scope("lm_head", |g| {
        let logits = g.cast(logits, DType::F32)?;
        let logits = if head.scale == 1.0 { logits } else { g.mul(logits, head.scale)? };
        let logits = head.softcap.map_or(Ok(logits), |cap| attention::soft_capped(g, cap, logits))?;
        Ok(g.reshape(logits, &[batch, positions, Dim::from(spec.vocab_size)])?)
    })
}

/// Each row's last attended position, `[batch, hidden_size]` out of `[tokens, hidden_size]`.
fn last_rows(g: &mut Graph, cx: &Context<'_>, x: Value) -> Result<Value, Error> {
    g.scope("model/last", |g| {
        let (batch, sequence) = (cx.dims.batch.clone(), cx.dims.sequence.clone());
        let within = mask::last_position(g, cx)?;
        let rows = g.range(0, &batch, 1)?;
        let starts = g.mul(rows, &sequence)?;
        let indices = g.add(starts, within)?;
        Ok(g.gather(x, indices, 0)?)
    })
}
