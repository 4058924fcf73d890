//! Token ids and positions to the residual stream.

use plansmith_families::{Embedding, Positions};
use plansmith_graph::{Data, Dim, Graph, Value};
use plansmith_tensor::DType;

use super::norm;
use crate::Error;
use crate::context::Context;

/// The residual stream of `input_ids`, `[tokens, hidden_size]` in the compute dtype.
pub(crate) fn lookup(g: &mut Graph, cx: &Context<'_>, embedding: &Embedding) -> Result<Value, Error> {
    let rows = g.scope("model/embed_tokens", |g| -> Result<Value, Error> {
        let rows = rows(g, cx, &embedding.weight, cx.input_ids)?;
        Ok(if embedding.scale == 1.0 { rows } else { g.mul(rows, embedding.scale)? })
    })?;
    g.scope("model", |g| {
        let mut x = rows;
        if let Some(project) = &embedding.project {
            x = cx.linear(g, "project_in", project, x)?;
        }
        if let Some(positions) = &embedding.positions {
            let added = g.scope("embed_positions", |g| absolute(g, cx, positions))?;
            x = g.add(x, added)?;
        }
        norm::optional(g, cx, "embed_norm", embedding.norm.as_ref(), x)
    })
}

/// Rows of a table, `[tokens, width]`. They are gathered before they are cast, so that the table itself is never converted.
fn rows(g: &mut Graph, cx: &Context<'_>, table: &plansmith_families::Weight, indices: Value) -> Result<Value, Error> {
    let width = Dim::from(table.shape[1]);
    let table = cx.stored(g, table)?;
    let rows = g.gather(table, indices, 0)?;
    let rows = g.cast(rows, cx.compute)?;
    Ok(g.reshape(rows, &[cx.dims.tokens.clone(), width])?)
}

/// `[tokens, hidden_size]`.
fn absolute(g: &mut Graph, cx: &Context<'_>, positions: &Positions) -> Result<Value, Error> {
    let shifted = |g: &mut Graph, offset: u64| -> Result<Value, Error> {
        Ok(if offset == 0 { cx.position_ids } else { g.add(cx.position_ids, offset as i64)? })
    };
    match positions {
        Positions::Learned { weight, offset } => {
            let indices = shifted(g, *offset)?;
            rows(g, cx, weight, indices)
        }
        Positions::Sinusoidal { frequencies, offset } => {
            let positions = shifted(g, *offset)?;
            let positions = g.unsqueeze(positions, &[2])?;
            let positions = g.cast(positions, DType::F32)?;
            let pairs = frequencies.len() as u64;
            let bytes: Vec<u8> = frequencies.iter().flat_map(|frequency| frequency.to_le_bytes()).collect();
            let frequencies = g.initializer("model.embed_positions.inv_freq", DType::F32, &[1, 1, pairs], Data::Inline(bytes.into()))?;
            let angles = g.mul(positions, frequencies)?;
            let waves = [g.sin(angles)?, g.cos(angles)?];
            let waves = g.concat(&waves, -1)?;
            let waves = g.cast(waves, cx.compute)?;
            Ok(g.reshape(waves, &[cx.dims.tokens.clone(), Dim::from(2 * pairs)])?)
        }
    }
}
