//! Grouped-query attention over the cache.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use plansmith_families::Attention;
use plansmith_tensor::Batch;
use rayon::prelude::*;

use crate::cache::{HeadCache, LayerCache};
use crate::exp::exp_of_negative;
use crate::range::largest;

/// Queries of one task: their scores against 8192 columns take 2 MiB.
const QUERIES: usize = 64;

/// Attends from `query`, `[batch, sequence, heads, head_dim]`, to `cache`, which holds this step's tokens already.
/// The result is shaped like `query`.
pub(crate) fn attend(attention: &Attention, cache: &LayerCache, batch: &Batch, query: &[f32]) -> Vec<f32> {
    let heads = attention.heads as usize;
    let group = heads / cache.kv_heads;
    let blocks = batch.sequence.div_ceil(QUERIES);
    let tasks: Vec<Task<'_>> = (0..blocks * batch.batch * heads)
        .map(|index| {
            let (block, row, head) = (index / (batch.batch * heads), index / heads % batch.batch, index % heads);
            let first = block * QUERIES;
            Task {
                attention,
                batch,
                query,
                cache: &cache.heads[row * cache.kv_heads + head / group],
                row,
                head,
                first,
                count: QUERIES.min(batch.sequence - first),
            }
        })
        .collect();
    // The tasks that see most columns first: what is left for the end is small.
    let results: Vec<Vec<f32>> = tasks.par_iter().rev().with_max_len(1).map(Task::run).collect();
    let mut out = vec![0.0; query.len()];
    for (task, result) in tasks.iter().rev().zip(&results) {
        task.store(result, &mut out);
    }
    out
}

/// Some queries of one row and head.
struct Task<'a> {
    attention: &'a Attention,
    batch: &'a Batch,
    query: &'a [f32],
    cache: &'a HeadCache,
    row: usize,
    head: usize,
    first: usize,
    count: usize,
}

impl Task<'_> {
    /// Where the `index`-th query begins in `[batch, sequence, heads, head_dim]`.
    fn start(&self, index: usize) -> usize {
        let (heads, head_dim) = (self.attention.heads as usize, self.attention.head_dim as usize);
        ((self.row * self.batch.sequence + self.first + index) * heads + self.head) * head_dim
    }

    /// `[count, head_dim]`.
    fn run(&self) -> Vec<f32> {
        let head_dim = self.attention.head_dim as usize;
        let past = self.batch.total() - self.batch.sequence;
        let columns = past + self.first + self.count;
        let mut queries = Vec::with_capacity(self.count * head_dim);
        for index in 0..self.count {
            queries.extend_from_slice(&self.query[self.start(index)..][..head_dim]);
        }

        let mut scores = vec![0.0; self.count * columns];
        let key = MatRef::from_row_major_slice(&self.cache.key[..columns * head_dim], columns, head_dim);
        matmul(
            MatMut::from_row_major_slice_mut(&mut scores, self.count, columns),
            Accum::Replace,
            MatRef::from_row_major_slice(&queries, self.count, head_dim),
            key.transpose(),
            self.attention.scale as f32,
            Par::Seq,
        );
        let mask = &self.batch.attention_mask[self.row * self.batch.total()..][..columns];
        for (index, scores) in scores.chunks_exact_mut(columns).enumerate() {
            masked_softmax(scores, mask, past + self.first + index, self.attention.window);
        }
        let mut out = vec![0.0; self.count * head_dim];
        matmul(
            MatMut::from_row_major_slice_mut(&mut out, self.count, head_dim),
            Accum::Replace,
            MatRef::from_row_major_slice(&scores, self.count, columns),
            MatRef::from_row_major_slice(&self.cache.value[..columns * head_dim], columns, head_dim),
            1.0,
            Par::Seq,
        );
        out
    }

    fn store(&self, result: &[f32], out: &mut [f32]) {
        let head_dim = self.attention.head_dim as usize;
        for (index, result) in result.chunks_exact(head_dim).enumerate() {
            out[self.start(index)..][..head_dim].copy_from_slice(result);
        }
    }
}

/// Softmax over the columns that the query at column `own` sees, zero elsewhere.
///
/// It sees itself, and of the columns before it those that the mask attends and the window reaches. Seeing itself whatever the mask
/// says keeps rows of padding finite; nobody else sees those columns.
fn masked_softmax(scores: &mut [f32], mask: &[i64], own: usize, window: Option<u64>) {
    let oldest = window.map_or(0, |window| (own + 1).saturating_sub(usize::try_from(window).unwrap_or(usize::MAX)));
    scores[..oldest].fill(0.0);
    scores[own + 1..].fill(0.0);
    let (before, mask) = (&mut scores[oldest..own], &mask[oldest..own]);
    for (score, &attend) in before.iter_mut().zip(mask) {
        *score = if attend == 0 { f32::NEG_INFINITY } else { *score };
    }
    let seen = &mut scores[oldest..=own];
    let max = largest(seen, |score| score);
    for score in &mut *seen {
        *score = exp_of_negative(*score - max);
    }
    let share = (1.0 / seen.iter().map(|&score| f64::from(score)).sum::<f64>()) as f32;
    for score in seen {
        *score *= share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(mask: &[i64], own: usize, window: Option<u64>) -> Vec<f32> {
        let mut scores = vec![3.0; mask.len()];
        masked_softmax(&mut scores, mask, own, window);
        scores
    }

    #[test]
    fn equal_scores_are_shared_by_the_columns_in_sight() {
        let third = 1.0f32 / 3.0;
        assert_eq!(seen(&[1, 1, 1, 1], 2, None), [third, third, third, 0.0]);
        assert_eq!(seen(&[0, 1, 0, 1], 3, None), [0.0, 0.5, 0.0, 0.5]);
        assert_eq!(seen(&[1, 1, 1, 1], 3, Some(2)), [0.0, 0.0, 0.5, 0.5]);
        assert_eq!(seen(&[1, 1, 1, 1], 3, Some(1)), [0.0, 0.0, 0.0, 1.0]);
        assert_eq!(seen(&[0, 0, 0, 1], 1, None), [0.0, 1.0, 0.0, 0.0], "padding sees itself alone");
    }

    #[test]
    fn large_scores_stay_finite() {
        let mut scores = [1e30, 1e30, -1e30];
        masked_softmax(&mut scores, &[1, 1, 1], 2, None);
        assert_eq!(scores, [0.5, 0.5, 0.0]);
    }

    #[test]
    fn nan_scores_stay_nan() {
        let mut scores = [f32::NAN, 0.0];
        masked_softmax(&mut scores, &[1, 1], 1, None);
        assert!(scores.iter().all(|score| score.is_nan()), "{scores:?}");
    }
}
