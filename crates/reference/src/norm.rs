//! Norms.

use plansmith_families::{Gain, Norm, NormKind};
use rayon::prelude::*;

use crate::linear::add;
use crate::vector::{sum, vectorised};
use crate::weights::Weights;

/// Rows a task.
const ROWS: usize = 64;

/// Norms every row of `x`, `[rows, width]`, in place.
pub(crate) fn norm_in_place(weights: &Weights, norm: &Norm, x: &mut [f32]) {
    let width = norm.width as usize;
    let gains = gains(weights, &norm.gain);
    let sets = (gains.len() / width).max(1);
    let bias = norm.bias.as_ref().map(|bias| weights.vector(bias));
    let keep = |row: &mut [f32]| weights.rounding.activations.iter().for_each(|significand| significand.round(row));
    // A factor `1 + weight` would not survive 16 bits, so that graphs multiply by it before they round.
    let is_plain = !matches!(norm.gain, Gain::Weight { offset, .. } if offset != 0.0);
    x.par_chunks_mut(ROWS * width).enumerate().for_each(|(task, rows)| {
        for (index, row) in rows.chunks_exact_mut(width).enumerate() {
            vectorised(
                #[inline(always)]
                || match norm.kind {
                    NormKind::Rms => divide_by_rms(row, norm.eps),
                    NormKind::Layer => divide_by_deviation(row, norm.eps),
                },
            );
            if is_plain {
                keep(row);
            }
            // With factors for each head, the rows are the heads of one token after another.
            let set = (task * ROWS + index) % sets;
            for (x, gain) in row.iter_mut().zip(&gains[set * width..]) {
                *x *= gain;
            }
            keep(row);
            if let Some(bias) = &bias {
                add(row, bias);
                keep(row);
            }
        }
    });
}

/// The norm of every row of `x`, `[rows, width]`.
pub(crate) fn norm(weights: &Weights, norm: &Norm, x: &[f32]) -> Vec<f32> {
    let mut normed = x.to_vec();
    norm_in_place(weights, norm, &mut normed);
    normed
}

/// The factors, one set of `[width]` after another; none where all are 1.
fn gains(weights: &Weights, gain: &Gain) -> Vec<f32> {
    match gain {
        Gain::One => Vec::new(),
        Gain::Weight { weight, offset } => {
            let mut gains = weights.vector(weight);
            for gain in gains.iter_mut().filter(|_| *offset != 0.0) {
                *gain += *offset as f32;
            }
            gains
        }
        Gain::PerHead(heads) => heads.iter().flat_map(|head| weights.vector(head)).collect(),
    }
}

/// `x / sqrt(mean(x²) + eps)`, the mean in fp64: its rounding would reach every element of the row.
#[inline(always)]
fn divide_by_rms(row: &mut [f32], eps: f64) {
    let squares = sum(row, |x| x * x);
    let scale = (1.0 / (squares / row.len() as f64 + eps).sqrt()) as f32;
    for x in row {
        *x *= scale;
    }
}

/// `(x − mean(x)) / sqrt(mean((x − mean(x))²) + eps)`, the means in fp64.
#[inline(always)]
fn divide_by_deviation(row: &mut [f32], eps: f64) {
    let count = row.len() as f64;
    let mean = sum(row, |x| x) / count;
    let squares = sum(row, |x| (x - mean) * (x - mean));
    let scale = 1.0 / (squares / count + eps).sqrt();
    for x in row {
        *x = ((f64::from(*x) - mean) * scale) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, stored, weight};

    const X: [f32; 8] = [1.0, -2.0, 3.5, 0.25, 0.5, 0.5, -4.0, 2.0];

    fn normed(kind: NormKind, width: u64, gain: Gain, bias: bool, eps: f64) -> Vec<f32> {
        let weights = stored(&[
            ("w", &[4], &[0.5, 1.5, -1.0, 2.0]),
            ("b", &[4], &[0.1, -0.2, 0.3, 0.4]),
            ("heads", &[2, 2], &[0.5, 1.5, -1.0, 2.0]),
            ("0", &[2], &[0.5, 1.5]),
            ("1", &[2], &[-1.0, 2.0]),
        ]);
        norm(&weights, &Norm { kind, width, gain, bias: bias.then(|| weight("b", &[4])), eps }, &X)
    }

    /// Wanted: `layer_norm` and `rms_norm` of torch.nn.functional in fp32.
    #[test]
    fn equal_those_of_torch() {
        let gain = |offset| Gain::Weight { weight: weight("w", &[4]), offset };
        assert_close(
            &normed(NormKind::Layer, 4, gain(0.0), true, 1e-5),
            &[0.179_575_77, -2.253_055, -1.132_364, -0.045_624_346, 0.266_666_5, 0.299_999_54, 1.966_665, 2.399_998_2],
        );
        assert_close(
            &normed(NormKind::Layer, 4, Gain::One, false, 1e-5),
            &[0.159_151_55, -1.368_703_4, 1.432_364, -0.222_812_18, 0.333_333_02, 0.333_333_02, -1.666_665, 0.999_999_05],
        );
        assert_close(
            &normed(NormKind::Rms, 4, gain(1.0), false, 1e-6),
            &[0.721_010_1, -2.403_366_8, 0.0, 0.360_505_04, 0.331_294_57, 0.552_157_64, 0.0, 2.650_356_5],
        );
        assert_close(
            &normed(NormKind::Rms, 4, gain(0.0), true, 1e-6),
            &[0.340_336_68, -1.642_020_2, -1.382_356_9, 0.640_336_7, 0.210_431_52, 0.131_294_56, 2.066_904_3, 2.166_904_5],
        );
    }

    /// Two tokens of two heads; wanted: torch's `layer_norm` of each head with its row of the weight.
    #[test]
    fn heads_have_factors_of_their_own() {
        let wanted = [0.499_998_9, -1.499_996_7, -0.999_998_1, -1.999_996_2, 0.0, 0.0, 0.999_999_4, 1.999_998_8];
        let one = Gain::Weight { weight: weight("heads", &[2, 2]), offset: 0.0 };
        let several = Gain::PerHead(vec![weight("0", &[2]), weight("1", &[2])]);
        for gain in [one, several] {
            assert_close(&normed(NormKind::Layer, 2, gain, false, 1e-5), &wanted);
        }
    }

    #[test]
    fn the_factors_stay_in_step_from_task_to_task() {
        let weights = stored(&[("heads", &[3, 1], &[1.0, 2.0, 3.0])]);
        let gain = Gain::Weight { weight: weight("heads", &[3, 1]), offset: 0.0 };
        let mut x = vec![5.0; 3 * 2 * ROWS];
        norm_in_place(&weights, &Norm { kind: NormKind::Rms, width: 1, gain, bias: None, eps: 0.0 }, &mut x);
        assert!(x.chunks_exact(3).all(|token| token == [1.0, 2.0, 3.0]), "{x:?}");
    }
}
