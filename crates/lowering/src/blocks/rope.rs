//! Rotary position embedding.
//!
//! Angles are computed in the graph from `position_ids`, in fp32, for the step's positions only: a table over all positions would
//! make the graph megabytes large and bound its length.

use plansmith_families::{DecoderSpec, Rope};
use plansmith_graph::{Data, Graph, Value};
use plansmith_tensor::DType;

use crate::context::Context;
use crate::{Error, Form};

/// Cosine and sine of the step's angles, `[batch, seq, head_dim / 2]` in the compute dtype.
#[derive(Clone, Copy)]
pub(crate) struct Rotation {
    cos: Value,
    sin: Value,
}

/// The rotations that layers refer to by index.
pub(crate) fn tables(g: &mut Graph, cx: &Context<'_>, spec: &DecoderSpec) -> Result<Vec<Rotation>, Error> {
    g.scope("model/rotary_emb", |g| {
        let column = g.unsqueeze(cx.position_ids, &[2])?;
        let positions = g.cast(column, DType::F32)?;
        spec.ropes.iter().enumerate().map(|(index, rope)| rotation(g, cx, index, rope, positions)).collect()
    })
}

fn rotation(g: &mut Graph, cx: &Context<'_>, index: usize, rope: &Rope, positions: Value) -> Result<Rotation, Error> {
    let bytes: Vec<u8> = rope.inverse_frequencies.iter().flat_map(|frequency| frequency.to_le_bytes()).collect();
    let name = format!("model.rotary_emb.{index}.inv_freq");
    let frequencies = g.initializer(&name, DType::F32, &[1, 1, rope.inverse_frequencies.len() as u64], Data::Inline(bytes.into()))?;
    let angles = g.mul(positions, frequencies)?;
    let (cos, sin) = (g.cos(angles)?, g.sin(angles)?);
    let mut finish = |wave: Value| -> Result<Value, Error> {
        let scaled = if rope.amplitude == 1.0 { wave } else { g.mul(wave, rope.amplitude)? };
        Ok(g.cast(scaled, cx.compute)?)
    };
    Ok(Rotation { cos: finish(cos)?, sin: finish(sin)? })
}

/// Turns the pairs `(x[i], x[i + head_dim / 2])` of `x`, `[batch, heads, seq, head_dim]`.
pub(crate) fn rotate(g: &mut Graph, cx: &Context<'_>, rotation: Rotation, x: Value) -> Result<Value, Error> {
    let Rotation { cos, sin } = rotation;
    if cx.form == Form::Composite {
        return Ok(g.rotary_at(x, cos, sin)?);
    }
    let half = g.dims(x)[3].known().unwrap_or_default() / 2;
    let (cos, sin) = (g.unsqueeze(cos, &[1])?, g.unsqueeze(sin, &[1])?);
    let halves = g.split(x, -1, &[half, half])?;
    let (first, second) = (halves[0], halves[1]);
    let (first_cos, second_sin) = (g.mul(first, cos)?, g.mul(second, sin)?);
    let (second_cos, first_sin) = (g.mul(second, cos)?, g.mul(first, sin)?);
    let turned = [g.sub(first_cos, second_sin)?, g.add(second_cos, first_sin)?];
    Ok(g.concat(&turned, -1)?)
}
