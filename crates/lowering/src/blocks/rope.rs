//! Rotary position embedding.
//!
//! Angles are computed in the graph from `position_ids`, in fp32, for the step's positions only: a table over all positions would
//! make the graph megabytes large and bound its length.

use std::collections::{BTreeMap, BTreeSet};

use plansmith_families::{DecoderSpec, Frequencies, Pairing, Rope};
use plansmith_graph::{Data, Dim, Graph, RotaryOptions, Value};
use plansmith_tensor::DType;

use crate::context::Context;
use crate::{Dialect, Error, Form};

/// Cosine and sine of the step's angles, `[batch, seq, pairs]` in the compute dtype.
#[derive(Clone, Copy)]
pub(crate) struct Rotation {
    cos: Value,
    sin: Value,
    pairing: Pairing,
    pairs: u64,
}

/// The rotations that layers refer to by index; those that none does are left out.
pub(crate) fn tables(g: &mut Graph, cx: &Context<'_>, spec: &DecoderSpec) -> Result<BTreeMap<usize, Rotation>, Error> {
    let used: BTreeSet<usize> = spec.layers.iter().filter_map(|layer| layer.attention.rope).collect();
    if used.is_empty() {
        return Ok(BTreeMap::new());
    }
    g.scope("model/rotary_emb", |g| {
        let column = g.unsqueeze(cx.position_ids, &[2])?;
        let positions = g.cast(column, DType::F32)?;
        used.into_iter().map(|index| Ok((index, rotation(g, cx, index, &spec.ropes[index], positions)?))).collect()
    })
}

fn rotation(g: &mut Graph, cx: &Context<'_>, index: usize, rope: &Rope, positions: Value) -> Result<Rotation, Error> {
    let pairs = rope.pairs() as u64;
    let list = |g: &mut Graph, name: &str, frequencies: &[f32]| {
        let bytes: Vec<u8> = frequencies.iter().flat_map(|frequency| frequency.to_le_bytes()).collect();
        g.initializer(&format!("model.rotary_emb.{index}.{name}"), DType::F32, &[1, 1, pairs], Data::Inline(bytes.into()))
    };
    let frequencies = match &rope.frequencies {
        Frequencies::Fixed(frequencies) => list(g, "inv_freq", frequencies)?,
        Frequencies::Switched { short, long, length } => {
            let (short, long) = (list(g, "short_inv_freq", short)?, list(g, "long_inv_freq", long)?);
            let last = g.reduce_max(cx.position_ids, &[0, 1], true)?;
            let last = g.unsqueeze(last, &[2])?;
            let beyond = g.greater_or_equal(last, *length as i64)?;
            g.select(beyond, long, short)?
        }
    };
    let angles = g.mul(positions, frequencies)?;
    let (cos, sin) = (g.cos(angles)?, g.sin(angles)?);
    let mut finish = |wave: Value| -> Result<Value, Error> {
        let scaled = if rope.amplitude == 1.0 { wave } else { g.mul(wave, rope.amplitude)? };
        Ok(g.cast(scaled, cx.compute)?)
    };
    Ok(Rotation { cos: finish(cos)?, sin: finish(sin)?, pairing: rope.pairing, pairs })
}

/// Turns the pairs of `x`, `[batch, heads, seq, head_dim]`; elements beyond them pass.
pub(crate) fn rotate(g: &mut Graph, cx: &Context<'_>, rotation: Rotation, x: Value) -> Result<Value, Error> {
    let Rotation { cos, sin, pairing, pairs } = rotation;
    let head_dim = g.dims(x)[3].known().unwrap_or_default();
    // TensorRT-RTX 1.7 fails within its compiler on RotaryEmbedding with neighbours as pairs (measured).
    let refused = cx.dialect == Dialect::Tensorrt && pairing == Pairing::Interleaved;
    if cx.form == Form::Composite && !refused {
        let rotary_dim = (2 * pairs < head_dim).then_some(2 * pairs);
        return Ok(g.rotary_at(x, cos, sin, RotaryOptions { interleaved: pairing == Pairing::Interleaved, rotary_dim })?);
    }
    let rest = head_dim - 2 * pairs;
    let (turning, passing) = match rest {
        0 => (x, None),
        _ => {
            let parts = g.split(x, -1, &[2 * pairs, rest])?;
            (parts[0], Some(parts[1]))
        }
    };
    let turned = turn(g, rotation, turning)?;
    Ok(passing.map_or(Ok(turned), |passing| g.concat(&[turned, passing], -1))?)
}

fn turn(g: &mut Graph, rotation: Rotation, x: Value) -> Result<Value, Error> {
    let Rotation { cos, sin, pairing, pairs } = rotation;
    let (cos, sin) = (g.unsqueeze(cos, &[1])?, g.unsqueeze(sin, &[1])?);
    let dims = g.dims(x);
    // Interleaved pairs become an axis of their own: `[.., pairs, 2]`.
    let (split, axis, size, cos, sin) = match pairing {
        Pairing::Halves => (x, -1, pairs, cos, sin),
        Pairing::Interleaved => {
            let paired = [&dims[..3], &[Dim::from(pairs), Dim::from(2u64)]].concat();
            (g.reshape(x, &paired)?, -1, 1, g.unsqueeze(cos, &[4])?, g.unsqueeze(sin, &[4])?)
        }
    };
    let halves = g.split(split, axis, &[size, size])?;
    let (first, second) = (halves[0], halves[1]);
    let (first_cos, second_sin) = (g.mul(first, cos)?, g.mul(second, sin)?);
    let (second_cos, first_sin) = (g.mul(second, cos)?, g.mul(first, sin)?);
    let turned = [g.sub(first_cos, second_sin)?, g.add(second_cos, first_sin)?];
    let turned = g.concat(&turned, axis)?;
    Ok(g.reshape(turned, &dims)?)
}
