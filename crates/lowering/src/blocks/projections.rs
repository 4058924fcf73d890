//! Queries, keys and values out of the residual stream.

use plansmith_families::{Attention, Linear, Part, Projections};
use plansmith_graph::{Dim, Graph, Value};

use crate::Error;
use crate::context::Context;

/// Query `[tokens, heads × head_dim]`, key and value `[tokens, kv_heads × head_dim]` of `x`, `[tokens, hidden_size]`; clipped.
pub(crate) fn apply(g: &mut Graph, cx: &Context<'_>, spec: &Attention, x: Value) -> Result<[Value; 3], Error> {
    let mut parts = match &spec.projections {
        Projections::Separate { query, key, value } => {
            [cx.linear(g, "q_proj", query, x)?, cx.linear(g, "k_proj", key, x)?, cx.linear(g, "v_proj", value, x)?]
        }
        Projections::Fused { linear, blocks, order } => fused(g, cx, spec, (linear, *blocks, *order), x)?,
    };
    if let Some(limit) = spec.clip {
        for part in &mut parts {
            *part = g.clip(*part, Some(-limit), Some(limit))?;
        }
    }
    Ok(parts)
}

fn fused(
    g: &mut Graph,
    cx: &Context<'_>,
    spec: &Attention,
    (linear, blocks, order): (&Linear, u64, [Part; 3]),
    x: Value,
) -> Result<[Value; 3], Error> {
    let all = cx.linear(g, "qkv_proj", linear, x)?;
    let width = |part: Part| match part {
        Part::Query => spec.heads * spec.head_dim,
        Part::Key | Part::Value => spec.kv_heads * spec.head_dim,
    };
    let pieces = if blocks == 1 {
        g.split(all, -1, &order.map(width))?
    } else {
        let shares = order.map(|part| width(part) / blocks);
        let tokens = cx.dims.tokens.clone();
        let blocked = g.reshape(all, &[tokens.clone(), Dim::from(blocks), Dim::from(shares.iter().sum::<u64>())])?;
        let pieces = g.split(blocked, 2, &shares)?;
        let flat = |(piece, part)| g.reshape(piece, &[tokens.clone(), Dim::from(width(part))]);
        pieces.into_iter().zip(order).map(flat).collect::<Result<_, _>>()?
    };
    let of = |wanted: Part| order.iter().position(|&part| part == wanted).map_or(pieces[0], |index| pieces[index]);
    Ok([of(Part::Query), of(Part::Key), of(Part::Value)])
}
