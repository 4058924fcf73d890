//! Matrix products with weights that are stored `[in, out]`.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

use crate::linear::TASKS;
use crate::weights::Matrix;

/// Columns of weights of one task, at least: a few cache lines of each row.
const FEWEST_COLUMNS: usize = 96;
/// Rows of weights of one task, at least: products of fewer would mostly load and store their sums.
const FEWEST_ROWS: usize = 128;
/// Elements of the weights of one task, beyond those: 256 KiB of fp32, so that what is widened is still at hand when it is multiplied.
const TILE: usize = 1 << 16;

/// `x · weight`: `x` is `[tokens, in]`, the result `[tokens, out]`.
///
/// Tasks share the columns of a block of rows, then of the next: the file is read once and in order, and its pages are given back a
/// block at a time. Each element is summed by one task at a time, row after row: no run differs from another.
pub(crate) fn times(matrix: &Matrix<'_>, x: &[f32], tokens: usize) -> Vec<f32> {
    let (rows, out) = (matrix.row_count(), matrix.column_count());
    let width = out.div_ceil(TASKS * rayon::current_num_threads()).max(FEWEST_COLUMNS);
    let height = (TILE / width).max(FEWEST_ROWS);
    let mut y = vec![0.0; tokens * out];
    let x = MatRef::from_row_major_slice(x, tokens, rows);
    for first in (0..rows).step_by(height) {
        let block = first..rows.min(first + height);
        let targets = MatMut::from_row_major_slice_mut(&mut y, tokens, out).par_col_chunks_mut(width);
        targets.enumerate().for_each(|(task, target)| {
            let columns = task * width..task * width + target.ncols();
            matrix.with_tile(block.clone(), columns, |tile| {
                matmul(target, Accum::Add, x.subcols(block.start, block.len()), tile, 1.0, Par::Seq);
            });
        });
        matrix.release(block);
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{stored_as, weight};
    use safetensors::tensor::Dtype;

    /// More rows than one block holds and columns that tiles do not divide; small numbers, so that fp32 sums are exact.
    #[test]
    fn blocks_and_tiles_cover_the_matrix_once() {
        let (rows, out) = (2 * TILE / FEWEST_COLUMNS + 5, 97);
        let stored = |row: usize, column: usize| ((row * 7 + column * 5) % 9) as f32 - 4.0;
        let input = |token: usize, row: usize| ((row + token) % 3) as f32 - 1.0;
        let elements: Vec<f32> = (0..rows * out).map(|index| stored(index / out, index % out)).collect();
        for dtype in [Dtype::F32, Dtype::BF16, Dtype::F16] {
            let weights = stored_as(dtype, &[("w", &[rows as u64, out as u64], &elements)]);
            for tokens in [1, 3] {
                let x: Vec<f32> = (0..tokens * rows).map(|index| input(index / rows, index % rows)).collect();
                let y = times(&weights.matrix(&weight("w", &[rows as u64, out as u64])), &x, tokens);
                for (index, found) in y.into_iter().enumerate() {
                    let (token, column) = (index / out, index % out);
                    let wanted: f32 = (0..rows).map(|row| input(token, row) * stored(row, column)).sum();
                    assert_eq!(found, wanted, "{dtype:?}, token {token}, column {column}");
                }
            }
        }
    }
}
