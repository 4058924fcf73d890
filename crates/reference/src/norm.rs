//! Root-mean-square norm.

use plansmith_families::Norm;
use rayon::prelude::*;

use crate::weights::Weights;

/// Rows a task.
const ROWS: usize = 64;

/// Norms every row of `x`, `[rows, width]`, in place.
pub(crate) fn rms_in_place(weights: &Weights, norm: &Norm, x: &mut [f32]) {
    let weight = weights.vector(&norm.weight);
    x.par_chunks_mut(ROWS * weight.len()).for_each(|rows| {
        for row in rows.chunks_exact_mut(weight.len()) {
            rms_row(row, &weight, norm.eps);
        }
    });
}

/// The norm of every row of `x`, `[rows, width]`.
pub(crate) fn rms(weights: &Weights, norm: &Norm, x: &[f32]) -> Vec<f32> {
    let mut normed = x.to_vec();
    rms_in_place(weights, norm, &mut normed);
    normed
}

/// `x / sqrt(mean(x²) + eps) · weight`, the mean in fp64: its rounding would reach every element of the row.
fn rms_row(row: &mut [f32], weight: &[f32], eps: f64) {
    let squares: f64 = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let scale = (1.0 / (squares / row.len() as f64 + eps).sqrt()) as f32;
    for (x, weight) in row.iter_mut().zip(weight) {
        *x = *x * scale * weight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_three_and_four() {
        // mean(9, 16) = 12.5: the row becomes (3, 4) / 3.5355339…
        let mut row = [3.0, 4.0];
        rms_row(&mut row, &[1.0, 10.0], 0.0);
        assert!((row[0] - 0.848_528_1).abs() < 1e-6 && (row[1] - 11.313_708).abs() < 1e-5, "{row:?}");
    }
}
