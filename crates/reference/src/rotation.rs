//! Rotary embedding: cosines and sines of one step, and turning heads by them.

use plansmith_families::{Frequencies, Pairing, Rope};
use rayon::prelude::*;

use crate::rounding::Significand;

/// Cosine and sine of every token and pair, times the amplitude: `[tokens, pairs]`.
pub(crate) struct Rotation {
    pairing: Pairing,
    pairs: usize,
    turns: Vec<(f32, f32)>,
}

impl Rotation {
    /// `positions` is `[tokens]`, those of all rows.
    ///
    /// The angle is rounded to fp32, as transformers computes it; its cosine and sine are taken in fp64, so that no platform's
    /// fp32 library matters.
    pub(crate) fn new(rope: &Rope, positions: &[i64]) -> Self {
        let frequencies = frequencies(&rope.frequencies, positions);
        let turn = |position: f32, frequency: f32| {
            let (sine, cosine) = f64::from(position * frequency).sin_cos();
            let amplitude = rope.amplitude as f32;
            (cosine as f32 * amplitude, sine as f32 * amplitude)
        };
        let turns =
            positions.iter().flat_map(|&position| frequencies.iter().map(move |&frequency| turn(position as f32, frequency))).collect();
        Self { pairing: rope.pairing, pairs: frequencies.len(), turns }
    }

    /// The same with cosines and sines as they are stored.
    pub(crate) fn rounded(mut self, significand: Significand) -> Self {
        for turn in &mut self.turns {
            let mut both = [turn.0, turn.1];
            significand.round(&mut both);
            *turn = both.into();
        }
        self
    }

    /// Turns every head of `x`, `[tokens, heads, head_dim]`; elements of a head beyond the pairs pass.
    pub(crate) fn apply(&self, x: &mut [f32], heads: usize, head_dim: usize) {
        if self.pairs == 0 {
            return;
        }
        x.par_chunks_exact_mut(heads * head_dim).zip(self.turns.par_chunks_exact(self.pairs)).for_each(|(token, turns)| {
            for head in token.chunks_exact_mut(head_dim) {
                let turned = &mut head[..2 * self.pairs];
                match self.pairing {
                    Pairing::Halves => {
                        let (left, right) = turned.split_at_mut(self.pairs);
                        for ((left, right), &by) in left.iter_mut().zip(right).zip(turns) {
                            turn(left, right, by);
                        }
                    }
                    Pairing::Interleaved => {
                        for ([left, right], &by) in turned.as_chunks_mut::<2>().0.iter_mut().zip(turns) {
                            turn(left, right, by);
                        }
                    }
                }
            }
        });
    }
}

/// Turns one pair by an angle, given by its cosine and sine.
fn turn(left: &mut f32, right: &mut f32, (cosine, sine): (f32, f32)) {
    (*left, *right) = (*left * cosine - *right * sine, *right * cosine + *left * sine);
}

/// Those of a step with these positions.
fn frequencies<'a>(all: &'a Frequencies, positions: &[i64]) -> &'a [f32] {
    match all {
        Frequencies::Fixed(frequencies) => frequencies,
        Frequencies::Switched { short, long, length } => {
            let needed = positions.iter().max().map_or(0, |&last| last.saturating_add(1));
            if u64::try_from(needed).is_ok_and(|needed| needed > *length) { long } else { short }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assert_close;

    fn rope(frequencies: Vec<f32>, amplitude: f64, pairing: Pairing) -> Rope {
        Rope { frequencies: Frequencies::Fixed(frequencies), amplitude, pairing }
    }

    /// Two tokens of one head, `[1 / 4 … 12 / 4]`, the last two of six elements unturned.
    fn turned(pairing: Pairing) -> Vec<f32> {
        let mut x: Vec<f32> = (1..=12).map(|each| each as f32 / 4.0).collect();
        Rotation::new(&rope(vec![1.0, 0.1], 1.0, pairing), &[2, 5]).apply(&mut x, 1, 6);
        x
    }

    /// Wanted: `apply_rotary_pos_emb` of transformers 5.24 in modeling_gptj and modeling_gpt_neox.
    #[test]
    fn equals_both_pairings_of_transformers() {
        assert_close(
            &turned(Pairing::Interleaved),
            &[
                -0.558_685_4,
                0.019_250_93,
                0.536_380_65,
                1.129_068_6,
                1.25,
                1.5,
                2.414_257_5,
                -1.110_793_1,
                0.775_996_9,
                3.272_663_8,
                2.75,
                3.0,
            ],
        );
        assert_close(
            &turned(Pairing::Halves),
            &[
                -0.786_009_7,
                0.291_363_96,
                -0.084_785_774,
                1.079_401_3,
                1.25,
                1.5,
                2.653_988_6,
                0.556_601_3,
                -1.039_877_5,
                3.152_807_5,
                2.75,
                3.0,
            ],
        );
    }

    #[test]
    fn amplitude_and_heads() {
        let mut heads = [1.0, 5.0, 0.0, 7.0, 1.0, 5.0, 0.0, 7.0];
        Rotation::new(&rope(vec![1.0, 0.0], 2.0, Pairing::Halves), &[1]).apply(&mut heads, 2, 4);
        // Pair 0 is (1, 0), pair 1 is (5, 7): cos 1 = 0.5403023, sin 1 = 0.84147098.
        for head in heads.chunks_exact(4) {
            assert_close(head, &[1.080_604_6, 10.0, 1.682_942, 14.0]);
        }
    }

    #[test]
    fn one_long_row_switches_the_frequencies_of_all() {
        let switched = Frequencies::Switched { short: vec![1.0], long: vec![0.5], length: 8 };
        assert_eq!(frequencies(&switched, &[0, 7, 3]), [1.0]);
        assert_eq!(frequencies(&switched, &[0, 8, 3]), [0.5]);
    }
}
