//! Rotary embedding: cosines and sines of one step, and turning heads by them.

use plansmith_families::Rope;
use rayon::prelude::*;

/// Cosine and sine of every token and pair, times the amplitude: `[tokens, head_dim / 2]`.
pub(crate) struct Rotation {
    pairs: usize,
    turns: Vec<(f32, f32)>,
}

impl Rotation {
    /// `positions` is `[tokens]`.
    ///
    /// The angle is rounded to fp32, as transformers computes it; its cosine and sine are taken in fp64, so that no platform's
    /// fp32 library matters.
    pub(crate) fn new(rope: &Rope, positions: &[i64]) -> Self {
        let pairs = rope.inverse_frequencies.len();
        let turn = |position: f32, frequency: f32| {
            let (sine, cosine) = f64::from(position * frequency).sin_cos();
            let amplitude = rope.amplitude as f32;
            (cosine as f32 * amplitude, sine as f32 * amplitude)
        };
        let turns = positions
            .iter()
            .flat_map(|&position| rope.inverse_frequencies.iter().map(move |&frequency| turn(position as f32, frequency)))
            .collect();
        Self { pairs, turns }
    }

    /// Turns every head of `x`, `[tokens, heads, head_dim]`: pair `i` of a head is `(x[i], x[i + head_dim / 2])`.
    pub(crate) fn apply(&self, x: &mut [f32], heads: usize) {
        let token = heads * 2 * self.pairs;
        x.par_chunks_exact_mut(token).zip(self.turns.par_chunks_exact(self.pairs)).for_each(|(token, turns)| {
            for head in token.chunks_exact_mut(2 * self.pairs) {
                let (left, right) = head.split_at_mut(self.pairs);
                for ((left, right), &(cosine, sine)) in left.iter_mut().zip(right).zip(turns) {
                    (*left, *right) = (*left * cosine - *right * sine, *right * cosine + *left * sine);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_radian_turns_the_pairs_of_rotate_half() {
        let rope = Rope { inverse_frequencies: vec![1.0, 0.0], amplitude: 2.0 };
        let mut head = [1.0, 5.0, 0.0, 7.0];
        Rotation::new(&rope, &[1]).apply(&mut head, 1);
        // Pair 0 is (1, 0), pair 1 is (5, 7): cos 1 = 0.5403023, sin 1 = 0.84147098.
        for (found, wanted) in head.iter().zip([1.080_604_6, 10.0, 1.682_942, 14.0]) {
            assert!((found - wanted).abs() < 1e-6, "{head:?}");
        }
    }
}
