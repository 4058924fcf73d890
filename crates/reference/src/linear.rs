//! Matrix products with stored weights.

use std::ops::Range;

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use plansmith_families::Linear;
use rayon::prelude::*;

use crate::weights::{Matrix, Weights};

/// Up to this many tokens reading the weights takes longer than multiplying them, and dot products read them once and in order.
const FEW_TOKENS: usize = 4;
/// Fewer rows of weights than this are not worth a thread of their own.
const FEWEST_SHARED: usize = 32;
/// Elements of a block of weights: 16 MiB of fp32.
const BLOCK: usize = 1 << 22;
/// Elements of the weights of one task of dot products: 64 KiB of fp32.
const TASK: usize = 1 << 14;

/// `x · weightᵀ + bias`: `x` is `[tokens, in]`, the result `[tokens, out]`.
pub(crate) fn linear(weights: &Weights, layer: &Linear, x: &[f32]) -> Vec<f32> {
    let matrix = weights.matrix(&layer.weight);
    let tokens = x.len() / matrix.column_count();
    let mut y = if tokens <= FEW_TOKENS { by_dots(&matrix, x, tokens) } else { by_products(&matrix, x, tokens) };
    if let Some(bias) = &layer.bias {
        let bias = weights.vector(bias);
        for row in y.chunks_exact_mut(bias.len()) {
            add(row, &bias);
        }
    }
    y
}

/// `x += y`.
pub(crate) fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

fn by_products(matrix: &Matrix<'_>, x: &[f32], tokens: usize) -> Vec<f32> {
    let (out, columns) = (matrix.row_count(), matrix.column_count());
    let mut y = vec![0.0; tokens * out];
    let x = MatRef::from_row_major_slice(x, tokens, columns);
    for_each_block(matrix, |range| {
        let rows = matrix.rows(range.clone());
        let share = range.len().div_ceil(rayon::current_num_threads()).max(FEWEST_SHARED);
        let target = MatMut::from_row_major_slice_mut(&mut y, tokens, out).subcols_mut(range.start, range.len());
        target.par_col_chunks_mut(share).zip(rows.par_chunks(share * columns)).for_each(|(target, rows)| {
            let weight = MatRef::from_row_major_slice(rows, rows.len() / columns, columns);
            matmul(target, Accum::Replace, x, weight.transpose(), 1.0, Par::Seq);
        });
    });
    y
}

fn by_dots(matrix: &Matrix<'_>, x: &[f32], tokens: usize) -> Vec<f32> {
    let (out, columns) = (matrix.row_count(), matrix.column_count());
    let height = (TASK / columns).max(1);
    let mut transposed = vec![0.0; out * tokens];
    for_each_block(matrix, |range| {
        let of_block = &mut transposed[range.start * tokens..range.end * tokens];
        of_block.par_chunks_mut(height * tokens).enumerate().for_each(|(task, results)| {
            let first = range.start + task * height;
            let rows = matrix.rows(first..first + results.len() / tokens);
            for (row, results) in rows.chunks_exact(columns).zip(results.chunks_exact_mut(tokens)) {
                for (x, result) in x.chunks_exact(columns).zip(results) {
                    *result = dot(row, x);
                }
            }
        });
    });
    (0..tokens).flat_map(|token| transposed.iter().skip(token).step_by(tokens).copied()).collect()
}

/// Block after block: each is released before the next is read.
fn for_each_block(matrix: &Matrix<'_>, mut each: impl FnMut(Range<usize>)) {
    let (out, height) = (matrix.row_count(), (BLOCK / matrix.column_count()).max(1));
    for first in (0..out).step_by(height) {
        let range = first..out.min(first + height);
        each(range.clone());
        matrix.release(range);
    }
}

/// In sixteen partial sums, which the compiler keeps in vector registers.
fn dot(x: &[f32], y: &[f32]) -> f32 {
    let (x_chunks, x_rest) = x.as_chunks::<16>();
    let (y_chunks, y_rest) = y.as_chunks::<16>();
    let mut sums = [0.0; 16];
    for (x, y) in x_chunks.iter().zip(y_chunks) {
        for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
            *sum += x * y;
        }
    }
    let rest: f32 = x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f32>() + rest
}
