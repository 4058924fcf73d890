//! One layer.

use plansmith_families::{Arrangement, Join, Layer, Residual};
use plansmith_tensor::Tap;

use crate::attention::self_attention;
use crate::cache::LayerCache;
use crate::linear::{add, scale};
use crate::mlp::feed_forward;
use crate::norm::{norm, norm_in_place};
use crate::range::{LayerRange, raise};
use crate::step::Step;
use crate::weights::Weights;

/// Takes the residual stream `x`, `[tokens, hidden_size]`, through one layer.
pub(crate) fn through(step: &Step<'_>, (index, layer): (usize, &Layer), cache: &mut LayerCache, x: &mut Vec<f32>, range: &mut LayerRange) {
    let LayerRange { self_attn, mlp, residual } = range;
    let tapped = |tap: Tap, values: Vec<f32>| {
        step.tap(tap, step.batch.batch * step.batch.sequence, &values);
        values
    };
    let attention = |x: &[f32], peak: &mut f32| tapped(Tap::Attention(index), self_attention(step, &layer.attention, cache, x, peak));
    let feed_forward = |x: &[f32], peak: &mut f32| tapped(Tap::Mlp(index), feed_forward(step.weights, &layer.mlp, x, peak));
    match layer.arrangement {
        Arrangement::Sequential => {
            joined(step.weights, &layer.attention_join, x, attention, self_attn, residual);
            joined(step.weights, &layer.mlp_join, x, feed_forward, mlp, residual);
        }
        Arrangement::Parallel => {
            let terms = side_by_side(step.weights, (&layer.attention_join, attention, self_attn), (&layer.mlp_join, feed_forward, mlp), x);
            for term in terms {
                add(x, &term);
                step.weights.keep(x);
                raise(residual, x);
            }
        }
    }
}

/// The terms of two blocks that both read `x`; equal input norms are taken once.
fn side_by_side(
    weights: &Weights,
    (left, left_block, left_peak): (&Join, impl FnOnce(&[f32], &mut f32) -> Vec<f32>, &mut f32),
    (right, right_block, right_peak): (&Join, impl FnOnce(&[f32], &mut f32) -> Vec<f32>, &mut f32),
    x: &[f32],
) -> [Vec<f32>; 2] {
    let normed = input(weights, left, x);
    let left_term = term(weights, left, normed.as_deref().unwrap_or(x), left_block, left_peak);
    let normed = if left.input_norm == right.input_norm { normed } else { input(weights, right, x) };
    [left_term, term(weights, right, normed.as_deref().unwrap_or(x), right_block, right_peak)]
}

/// `x ← stream_norm(residual + term)`.
fn joined(
    weights: &Weights,
    join: &Join,
    x: &mut Vec<f32>,
    block: impl FnOnce(&[f32], &mut f32) -> Vec<f32>,
    peak: &mut f32,
    residual: &mut f32,
) {
    let normed = input(weights, join, x);
    let term = term(weights, join, normed.as_deref().unwrap_or(x), block, peak);
    if let (Residual::Normed, Some(normed)) = (join.residual, normed) {
        *x = normed;
    }
    add(x, &term);
    weights.keep(x);
    raise(residual, x);
    if let Some(norm) = &join.stream_norm {
        norm_in_place(weights, norm, x);
        raise(residual, x);
    }
}

/// `input_norm(x)`, where there is one.
fn input(weights: &Weights, join: &Join, x: &[f32]) -> Option<Vec<f32>> {
    join.input_norm.as_ref().map(|input| norm(weights, input, x))
}

/// `scale · output_norm(block(x))`.
fn term(weights: &Weights, join: &Join, x: &[f32], block: impl FnOnce(&[f32], &mut f32) -> Vec<f32>, peak: &mut f32) -> Vec<f32> {
    let mut term = block(x, peak);
    if let Some(norm) = &join.output_norm {
        norm_in_place(weights, norm, &mut term);
        raise(peak, &term);
    }
    if join.scale != 1.0 {
        scale(&mut term, join.scale);
        weights.keep(&mut term);
        raise(peak, &term);
    }
    term
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{stored, weight};
    use plansmith_families::{Gain, Norm, NormKind};

    const PLAIN: Join = Join { input_norm: None, output_norm: None, scale: 1.0, residual: Residual::Stream, stream_norm: None };

    fn norm(kind: NormKind, gain: Gain) -> Option<Norm> {
        Some(Norm { kind, width: 2, gain, bias: None, eps: 0.0 })
    }

    fn twice(x: &[f32], _: &mut f32) -> Vec<f32> {
        x.iter().map(|x| 2.0 * x).collect()
    }

    /// By hand: the layer norm of two elements is (−1, 1), and the mean square of (−2, 2) is 4.
    #[test]
    fn blocks_meet_the_stream_as_the_join_says() {
        let weights = stored(&[("w", &[2], &[1.0, 3.0])]);
        let layer_norm = || norm(NormKind::Layer, Gain::One);
        let after = |join: Join| {
            let (mut x, mut peak, mut residual) = (vec![3.0, 4.0], 0.0, 0.0);
            joined(&weights, &join, &mut x, twice, &mut peak, &mut residual);
            (x, peak, residual)
        };
        assert_eq!(after(PLAIN), (vec![9.0, 12.0], 0.0, 12.0));
        assert_eq!(after(Join { input_norm: layer_norm(), ..PLAIN }), (vec![1.0, 6.0], 0.0, 6.0));
        let output_norm = norm(NormKind::Rms, Gain::Weight { weight: weight("w", &[2]), offset: 0.0 });
        let sandwich = Join { input_norm: layer_norm(), output_norm, scale: 0.5, ..PLAIN };
        assert_eq!(after(sandwich.clone()), (vec![2.5, 5.5], 3.0, 5.5));
        assert_eq!(after(Join { residual: Residual::Normed, ..sandwich.clone() }), (vec![-1.5, 2.5], 3.0, 2.5));
        assert_eq!(after(Join { stream_norm: layer_norm(), ..sandwich }), (vec![-1.0, 1.0], 3.0, 5.5));
        assert_eq!(after(Join { residual: Residual::Normed, ..PLAIN }), (vec![9.0, 12.0], 0.0, 12.0));
    }

    #[test]
    fn blocks_side_by_side_read_the_same_stream() {
        let weights = stored(&[("w", &[2], &[1.0, 3.0])]);
        let terms = |left: Option<Norm>, right: Option<Norm>| {
            let join = |input_norm| Join { input_norm, ..PLAIN };
            side_by_side(&weights, (&join(left), twice, &mut 0.0), (&Join { scale: 10.0, ..join(right) }, twice, &mut 0.0), &[3.0, 4.0])
        };
        let layer_norm = || norm(NormKind::Layer, Gain::One);
        let weighted = norm(NormKind::Layer, Gain::Weight { weight: weight("w", &[2]), offset: 0.0 });
        assert_eq!(terms(layer_norm(), layer_norm()), [[-2.0, 2.0], [-20.0, 20.0]]);
        assert_eq!(terms(layer_norm(), weighted), [[-2.0, 2.0], [-20.0, 60.0]]);
        assert_eq!(terms(layer_norm(), None), [[-2.0, 2.0], [60.0, 80.0]]);
        assert_eq!(terms(None, None), [[6.0, 8.0], [60.0, 80.0]]);
    }
}
