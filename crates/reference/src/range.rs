//! How large activations get: what decides whether a model can be computed in fp16.

use rayon::prelude::*;

use crate::vector::vectorised;

/// The largest magnitudes that the blocks of one layer gave, over all steps so far.
///
/// A graph that computes in fp16 holds the same values: beyond 65,504 they become infinite, whatever a runtime that widens them shows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LayerRange {
    /// Query, key and value, merged heads where they are normed, and output of attention; each before and after what is done to it.
    pub self_attn: f32,
    /// Gate, up, what `down` reads, and output of the feed-forward part.
    pub mlp: f32,
    /// The residual stream after each block, and for the first layer before it.
    pub residual: f32,
}

impl LayerRange {
    /// The first block whose values are larger than `limit`, in the order of computation: its name and the value.
    pub fn beyond(&self, limit: f32) -> Option<(&'static str, f32)> {
        let blocks = [("self_attn", self.self_attn), ("mlp", self.mlp), ("residual", self.residual)];
        blocks.into_iter().find(|(_, value)| *value > limit)
    }
}

/// Raises `peak` to the largest magnitude of `values`; NaN is left to whoever looks at the logits.
pub(crate) fn raise(peak: &mut f32, values: &[f32]) {
    *peak = values
        .par_chunks(1 << 14)
        .map(|chunk| {
            vectorised(
                #[inline(always)]
                || largest(chunk, f32::abs),
            )
        })
        .reduce(|| *peak, f32::max);
}

/// The largest `of(value)`; passes over NaN, and gives −∞ where there is nothing else. In sixteen lanes, as the compiler likes it.
#[inline(always)]
pub(crate) fn largest(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let larger = |left: f32, right: f32| if right > left { right } else { left };
    let (chunks, rest) = values.as_chunks::<16>();
    let mut lanes = [f32::NEG_INFINITY; 16];
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, of(value));
        }
    }
    lanes.into_iter().chain(rest.iter().map(|&value| of(value))).fold(f32::NEG_INFINITY, larger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_block_beyond_is_named() {
        let mut range = LayerRange::default();
        raise(&mut range.self_attn, &[1.0, -3.0, 2.0]);
        raise(&mut range.mlp, &[70_000.0, 0.0]);
        raise(&mut range.residual, &[-90_000.0]);
        assert_eq!(range.self_attn, 3.0);
        assert_eq!(range.beyond(65_504.0), Some(("mlp", 70_000.0)));
    }
}
