//! Which columns a query sees.

use std::collections::BTreeMap;

use plansmith_families::{Attention, DecoderSpec};
use plansmith_graph::{Dim, Graph, Value};
use plansmith_tensor::DType;

use super::attention::divided;
use crate::Error;
use crate::context::{Context, Growth};

/// The masks that occur, by window and by how many rows attention makes of one, `[batch × rows, 1, seq, total]`: bool, true where a query
/// attends; of divided rows, numbers to add to the scores.
pub(crate) struct Masks(BTreeMap<(Option<u64>, u64), Value>);

impl Masks {
    /// The mask of a layer's attention.
    pub(crate) fn of(&self, cx: &Context<'_>, attention: &Attention) -> Value {
        self.0[&(attention.window, divided(cx, attention))]
    }

    /// Every window that occurs, with its mask of undivided rows.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Option<u64>, Value)> {
        self.0.iter().filter(|((_, rows), _)| *rows == 1).map(|(&(window, _), &mask)| (window, mask))
    }
}

/// Causal, within the window, and on attended columns; any pattern of `attention_mask` is honoured.
///
/// A query always sees its own column. For a real token that changes nothing; a padding token, which could see no column at all,
/// so gets finite numbers and cannot disturb others.
pub(crate) fn by_window(g: &mut Graph, cx: &Context<'_>, spec: &DecoderSpec) -> Result<Masks, Error> {
    g.scope("model/mask", |g| {
        let queries = own_columns(g, cx)?;
        let columns = g.range(0, &cx.dims.total, 1)?;
        let queries = match cx.growth {
            Growth::Concat { .. } => g.unsqueeze(queries, &[1])?,
            Growth::Scatter { .. } => g.unsqueeze(queries, &[1, 3])?,
        };
        let columns = g.unsqueeze(columns, &[0])?;
        let own = g.equal(columns, queries)?;
        let causal = g.less_or_equal(columns, queries)?;
        let attended = g.cast(cx.attention_mask, DType::Bool)?;
        let attended = g.unsqueeze(attended, &[1, 2])?;
        let seen = g.or(attended, own)?;
        let mut masks = BTreeMap::new();
        for layer in &spec.layers {
            let window = layer.attention.window;
            if masks.contains_key(&(window, 1)) {
                continue;
            }
            let reach = match window {
                None => causal,
                Some(width) => {
                    let first = g.sub(queries, width as i64)?;
                    let near = g.greater(columns, first)?;
                    g.and(causal, near)?
                }
            };
            masks.insert((window, 1), g.and(seen, reach)?);
        }
        for attention in spec.layers.iter().map(|layer| &layer.attention) {
            let (window, rows) = (attention.window, divided(cx, attention));
            if masks.contains_key(&(window, rows)) {
                continue;
            }
            let mask = added(g, cx, masks[&(window, 1)])?;
            let [batch, sequence, total] = [&cx.dims.batch, &cx.dims.sequence, &cx.dims.total].map(Clone::clone);
            let repeated = g.expand(mask, &[batch.clone(), Dim::from(rows), sequence.clone(), total.clone()])?;
            let divided = g.reshape(repeated, &[&batch * rows, Dim::from(1u64), sequence, total])?;
            masks.insert((window, rows), divided);
        }
        Ok(Masks(masks))
    })
}

/// A mask as numbers to add to scores, in the compute dtype: 0 where a query attends.
///
/// Of a bool mask of divided rows TensorRT-RTX 1.7 makes a list of what attention may skip, in six kernels a step, and 0.9 MB of a plan
/// (measured). The other number is finite, so that a block of columns that none sees gives no NaN, and what the softmax makes of it is 0:
/// a query sees its own column, and no score is as large.
fn added(g: &mut Graph, cx: &Context<'_>, mask: Value) -> Result<Value, Error> {
    let unseen = if cx.compute == DType::F16 { -65504.0 } else { -1e30 };
    let zero = g.scalar(cx.compute, 0.0)?;
    Ok(g.select(mask, zero, unseen)?)
}

/// The column of each of the step's tokens, int64: `[seq]`, or `[batch, seq]` in a static cache, where rows may stand at different slots.
fn own_columns(g: &mut Graph, cx: &Context<'_>) -> Result<Value, Error> {
    Ok(match &cx.growth {
        Growth::Concat { past, .. } => g.range(past, &cx.dims.total, 1)?,
        Growth::Scatter { first } => {
            let steps = g.range(0, &cx.dims.sequence, 1)?;
            let first = g.unsqueeze(*first, &[1])?;
            g.add(first, steps)?
        }
    })
}

/// The index of each row's last attended position among the step's, int64 `[batch]`; 0 where a row attends none.
pub(crate) fn last_position(g: &mut Graph, cx: &Context<'_>) -> Result<Value, Error> {
    let recent = match &cx.growth {
        Growth::Concat { past, cache } if past == cache => g.slice(cx.attention_mask, 1, past, &cx.dims.total)?,
        // Here `past` is what the mask has more than the step, so that only the columns themselves are known to be as many as the step.
        Growth::Concat { past, .. } => {
            let columns = g.range(past, &cx.dims.total, 1)?;
            g.gather(cx.attention_mask, columns, 1)?
        }
        Growth::Scatter { .. } => {
            let columns = own_columns(g, cx)?;
            g.gather_elements(cx.attention_mask, columns, 1)?
        }
    };
    let recent = g.cast(recent, DType::Bool)?;
    let recent = g.cast(recent, DType::I64)?;
    let positions = g.range(0, &cx.dims.sequence, 1)?;
    let attended = g.mul(recent, positions)?;
    Ok(g.reduce_max(attended, &[1], false)?)
}
