//! Self-attention of one layer.

use plansmith_families::{Attention, NormOrder, PositionScale};

use crate::attend::attend;
use crate::cache::LayerCache;
use crate::linear::linear;
use crate::norm::norm_in_place;
use crate::projections::{Projected, project};
use crate::range::raise;
use crate::step::Step;

/// Self-attention of one layer over `x`, `[tokens, hidden_size]`; appends this step's keys and values to `cache`.
pub(crate) fn self_attention(step: &Step<'_>, attention: &Attention, cache: &mut LayerCache, x: &[f32], peak: &mut f32) -> Vec<f32> {
    let (weights, batch) = (step.weights, step.batch);
    let Projected { mut query, mut key, mut value } = project(weights, attention, x);
    for projected in [&mut query, &mut key, &mut value] {
        raise(peak, projected);
        if let Some(limit) = attention.clip {
            clip(projected, limit as f32);
        }
    }

    norm_heads(step, attention, NormOrder::BeforeRotation, &mut query, &mut key, peak);
    if let Some(rope) = attention.rope {
        let head_dim = attention.head_dim as usize;
        step.rotations[rope].apply(&mut query, attention.heads as usize, head_dim);
        step.rotations[rope].apply(&mut key, attention.kv_heads as usize, head_dim);
        weights.keep(&mut query);
        weights.keep(&mut key);
    }
    norm_heads(step, attention, NormOrder::AfterRotation, &mut query, &mut key, peak);
    if let Some(scale) = attention.query_scale {
        scale_by_position(scale, &batch.position_ids, &mut query);
        weights.keep(&mut query);
        raise(peak, &query);
    }

    cache.append(batch.sequence, &key, &value);
    let sinks = attention.sinks.as_ref().map(|sinks| weights.vector(sinks));
    let mut merged = attend(attention, sinks.as_deref(), cache, batch, &query, weights.rounding);
    weights.keep(&mut merged);
    if let Some(norm) = &attention.merged_norm {
        norm_in_place(weights, norm, &mut merged);
        raise(peak, &merged);
    }
    let output = linear(weights, &attention.output, &merged);
    raise(peak, &output);
    output
}

/// The norms of queries and keys, where this is their place.
///
/// A token's heads lie one after another, so that rows of the norm's width are its heads or all of them at once, as its extent says.
fn norm_heads(step: &Step<'_>, attention: &Attention, order: NormOrder, query: &mut [f32], key: &mut [f32], peak: &mut f32) {
    if let Some(norms) = attention.head_norms.as_ref().filter(|norms| norms.order == order) {
        for (norm, x) in [(&norms.query, query), (&norms.key, key)] {
            norm_in_place(step.weights, norm, x);
            raise(peak, x);
        }
    }
}

/// Unlike `f32::clamp`, does not panic over a negative limit.
fn clip(x: &mut [f32], limit: f32) {
    for x in x {
        *x = if *x > limit {
            limit
        } else if *x < -limit {
            -limit
        } else {
            *x
        };
    }
}

/// `x` is `[tokens, …]`.
fn scale_by_position(scale: PositionScale, positions: &[i64], x: &mut [f32]) {
    let width = x.len() / positions.len();
    for (token, &position) in x.chunks_exact_mut(width).zip(positions) {
        let factor = 1.0 + scale.beta * (position as f64 / scale.length).floor().ln_1p();
        for x in token {
            *x *= factor as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assert_close;

    /// Wanted: `get_llama_4_attn_scale(positions, 0.1, 4)` of transformers 5.24 in modeling_ministral3.
    #[test]
    fn queries_grow_in_steps() {
        let mut x = [1.0, -2.0, 1.0, 1.0, 1.0, 1.0, 1.0, -2.0];
        scale_by_position(PositionScale { beta: 0.1, length: 4.0 }, &[0, 3, 4, 17], &mut x);
        assert_close(&x, &[1.0, -2.0, 1.0, 1.0, 1.069_314_7, 1.069_314_7, 1.160_943_7, -2.321_887_5]);
    }

    #[test]
    fn clipping_keeps_nan() {
        let mut x = [-9.0, -1.0, 0.5, 7.0, f32::NAN];
        clip(&mut x, 2.0);
        assert_eq!(x[..4], [-2.0, -1.0, 0.5, 2.0]);
        assert!(x[4].is_nan());
    }
}
