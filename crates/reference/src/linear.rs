//! Matrix products with stored weights.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use plansmith_families::{Linear, LinearLayout};
use rayon::prelude::*;

use crate::activation::CHUNK;
use crate::in_out;
use crate::vector::vectorised;
use crate::weights::{Matrix, Weights};

/// Up to this many tokens reading the weights takes longer than multiplying them, and dot products read them once and in order.
const FEW_TOKENS: usize = 4;
/// Elements of the weights of one task of dot products: 256 KiB of fp32.
const DOTS: usize = 1 << 16;
/// Elements of the weights of one task of matrix products, about: 4 MiB of fp32.
const PRODUCTS: usize = 1 << 20;
/// Rows of weights that faer's kernel takes at a time; tasks hold a multiple of it, unless that is more than [`MOST`].
const AT_A_TIME: usize = 96;
/// Elements of the weights of one task, at most: 16 MiB of fp32, which each thread may hold.
const MOST: usize = 1 << 22;
/// Tasks a thread: threads that the system slows down get fewer.
pub(crate) const TASKS: usize = 4;

/// `x · weightᵀ + bias`, or `x · weight + bias` as the layout says: `x` is `[tokens, in]`, the result `[tokens, out]`.
pub(crate) fn linear(weights: &Weights, layer: &Linear, x: &[f32]) -> Vec<f32> {
    let matrix = weights.matrix(&layer.weight);
    let tokens = x.len() / layer.in_features() as usize;
    let mut y = match layer.layout {
        LinearLayout::OutIn if tokens <= FEW_TOKENS => by_dots(&matrix, x, tokens),
        LinearLayout::OutIn => by_products(&matrix, x, tokens),
        LinearLayout::InOut => in_out::times(&matrix, x, tokens),
    };
    if let Some(bias) = &layer.bias {
        let bias = weights.vector(bias);
        for row in y.chunks_exact_mut(bias.len()) {
            add(row, &bias);
        }
    }
    weights.keep(&mut y);
    y
}

/// `x += y`.
pub(crate) fn add(x: &mut [f32], y: &[f32]) {
    x.par_chunks_mut(CHUNK).zip(y.par_chunks(CHUNK)).for_each(|(x, y)| {
        for (x, y) in x.iter_mut().zip(y) {
            *x += y;
        }
    });
}

/// Multiplies every element; by nothing where the factor is 1.
pub(crate) fn scale(x: &mut [f32], factor: f64) {
    if factor != 1.0 {
        for x in x {
            *x *= factor as f32;
        }
    }
}

fn by_products(matrix: &Matrix<'_>, x: &[f32], tokens: usize) -> Vec<f32> {
    let (out, columns) = (matrix.row_count(), matrix.column_count());
    let share = out.div_ceil(TASKS * rayon::current_num_threads()).min(PRODUCTS / columns);
    let height = share.next_multiple_of(AT_A_TIME).max(AT_A_TIME).min((MOST / columns).max(1));
    let mut y = vec![0.0; tokens * out];
    let x = MatRef::from_row_major_slice(x, tokens, columns);
    let targets = MatMut::from_row_major_slice_mut(&mut y, tokens, out).par_col_chunks_mut(height);
    targets.enumerate().for_each(|(task, target)| {
        let first = task * height;
        matrix.with_rows(first..first + target.ncols(), |rows| {
            let weight = MatRef::from_row_major_slice(rows, rows.len() / columns, columns);
            matmul(target, Accum::Replace, x, weight.transpose(), 1.0, Par::Seq);
        });
    });
    y
}

fn by_dots(matrix: &Matrix<'_>, x: &[f32], tokens: usize) -> Vec<f32> {
    let (out, columns) = (matrix.row_count(), matrix.column_count());
    let height = (DOTS / columns).max(1);
    let mut transposed = vec![0.0; out * tokens];
    transposed.par_chunks_mut(height * tokens).enumerate().for_each(|(task, results)| {
        let first = task * height;
        matrix.with_rows(first..first + results.len() / tokens, |rows| {
            vectorised(
                #[inline(always)]
                || {
                    for (row, results) in rows.chunks_exact(columns).zip(results.chunks_exact_mut(tokens)) {
                        for (x, result) in x.chunks_exact(columns).zip(results) {
                            *result = dot(row, x);
                        }
                    }
                },
            );
        });
    });
    (0..tokens).flat_map(|token| transposed.iter().skip(token).step_by(tokens).copied()).collect()
}

/// In thirty-two partial sums, which the compiler keeps in vector registers.
#[inline(always)]
fn dot(x: &[f32], y: &[f32]) -> f32 {
    let (x_chunks, x_rest) = x.as_chunks::<32>();
    let (y_chunks, y_rest) = y.as_chunks::<32>();
    let mut sums = [0.0; 32];
    for (x, y) in x_chunks.iter().zip(y_chunks) {
        for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
            *sum += x * y;
        }
    }
    let rest: f32 = x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f32>() + rest
}
