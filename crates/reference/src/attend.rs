//! Grouped-query attention over the cache.

use std::ops::Range;

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use plansmith_families::Attention;
use plansmith_tensor::Batch;
use rayon::prelude::*;

use crate::activation::softcap;
use crate::alibi::distances;
use crate::cache::{HeadCache, LayerCache};
use crate::rounding::Rounding;
use crate::softmax::{masked_softmax, reach};

/// Queries of one task: their scores against 8192 columns take 2 MiB.
const QUERIES: usize = 64;

/// Attends from `query`, `[batch, sequence, heads, head_dim]`, to `cache`, which holds this step's tokens already.
/// The result is shaped like `query`; `sinks` is `[heads]`.
///
/// Of `rounding`, scores and the shares that softmax gives are rounded here.
pub(crate) fn attend(
    attention: &Attention,
    sinks: Option<&[f32]>,
    cache: &LayerCache,
    batch: &Batch,
    query: &[f32],
    rounding: Rounding,
) -> Vec<f32> {
    let distances = attention.alibi.as_ref().map(|alibi| distances(alibi, batch));
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
                sink: sinks.map(|sinks| sinks[head]),
                bias: attention
                    .alibi
                    .as_ref()
                    .zip(distances.as_deref())
                    .map(|(alibi, all)| Bias { slope: alibi.slopes()[head], distances: &all[row * batch.total()..][..batch.total()] }),
                cache: &cache.heads[row * cache.kv_heads + head / group],
                row,
                head,
                first,
                count: QUERIES.min(batch.sequence - first),
                rounding,
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

/// The linear bias of one row and head.
struct Bias<'a> {
    slope: f32,
    /// `[total]`.
    distances: &'a [f32],
}

impl Bias<'_> {
    /// Adds to the scores in `reach`, and gives the sink that goes with them.
    ///
    /// Counted from the query's own column, the last of `reach`: softmax sees differences only, and those of large sums lose digits.
    fn add(&self, scores: &mut [f32], reach: &Range<usize>, sink: Option<f32>) -> Option<f32> {
        let own = self.distances[reach.end - 1];
        for (score, distance) in scores[reach.clone()].iter_mut().zip(&self.distances[reach.clone()]) {
            *score += self.slope * (distance - own);
        }
        sink.map(|sink| sink - self.slope * own)
    }
}

/// Some queries of one row and head.
struct Task<'a> {
    attention: &'a Attention,
    batch: &'a Batch,
    query: &'a [f32],
    sink: Option<f32>,
    bias: Option<Bias<'a>>,
    cache: &'a HeadCache,
    row: usize,
    head: usize,
    first: usize,
    count: usize,
    rounding: Rounding,
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
        if let Some(significand) = self.rounding.activations.filter(|_| self.rounding.scores) {
            significand.round(&mut scores);
        }
        let mask = &self.batch.attention_mask[self.row * self.batch.total()..][..columns];
        for (index, scores) in scores.chunks_exact_mut(columns).enumerate() {
            let reach = reach(past + self.first + index, self.attention.window);
            if let Some(cap) = self.attention.softcap {
                softcap(&mut scores[reach.clone()], cap);
            }
            let sink = match &self.bias {
                Some(bias) => bias.add(scores, &reach, self.sink),
                None => self.sink,
            };
            masked_softmax(scores, mask, reach, sink);
        }
        if let Some(significand) = self.rounding.activations {
            significand.round(&mut scores);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, linear};
    use plansmith_families::{Alibi, Projections};

    const QUERY: [f32; 12] = [0.75, 0.125, 0.125, -0.625, 0.0, -1.375, 0.375, 1.0, -1.375, 1.0, 0.5, 1.25];
    const KEY: [f32; 6] = [-0.875, 0.25, 0.375, -0.125, 0.875, 0.875];
    const VALUE: [f32; 6] = [0.5, -0.125, -0.625, -1.0, 0.75, 0.25];

    /// Two query heads that share one key and value head, of two elements each.
    fn plain() -> Attention {
        let any = || linear("any", 2, 2);
        Attention {
            heads: 2,
            kv_heads: 1,
            head_dim: 2,
            scale: 0.7,
            window: None,
            softcap: None,
            alibi: None,
            sinks: None,
            rope: None,
            query_scale: None,
            projections: Projections::Separate { query: any(), key: any(), value: any() },
            clip: None,
            head_norms: None,
            merged_norm: None,
            output: any(),
        }
    }

    fn attended(attention: &Attention, sinks: Option<&[f32]>, mask: [i64; 3]) -> Vec<f32> {
        let mut cache = LayerCache { kv_heads: 1, head_dim: 2, heads: vec![HeadCache::default()] };
        cache.append(3, &KEY, &VALUE);
        let mut batch = Batch::unpadded(1, vec![0; 3], 0).unwrap();
        batch.attention_mask = mask.to_vec();
        attend(attention, sinks, &cache, &batch, &QUERY, Rounding::default())
    }

    /// Wanted: `eager_attention_forward` of transformers 5.24 in modeling_gpt_oss.
    #[test]
    fn sinks() {
        let wanted = [
            0.140_702_8,
            -0.035_175_7,
            0.346_487_28,
            -0.086_621_82,
            -0.087_528_28,
            -0.344_153_02,
            -0.068_145_424,
            -0.485_602_4,
            0.270_139_28,
            -0.134_348_15,
            0.384_522_68,
            -0.077_755_05,
        ];
        assert_close(&attended(&plain(), Some(&[0.5, -1.0]), [1; 3]), &wanted);
        // Where no slope adds anything, the bias must not move the sinks.
        let flat = Attention { alibi: Some(Alibi::ByColumn(vec![0.0, 0.0])), ..plain() };
        assert_close(&attended(&flat, Some(&[0.5, -1.0]), [1; 3]), &wanted);
    }

    /// Wanted: `eager_attention_forward` of transformers 5.24 in modeling_gemma2.
    #[test]
    fn softcap_of_scores() {
        assert_close(
            &attended(&Attention { softcap: Some(2.0), ..plain() }, None, [1; 3]),
            &[
                0.5,
                -0.125,
                0.5,
                -0.125,
                -0.162_571_95,
                -0.640_333_7,
                -0.080_946_565,
                -0.576_847_3,
                0.368_553_07,
                -0.191_262_13,
                0.394_860_15,
                -0.102_265_12,
            ],
        );
    }

    /// Wanted: torch's softmax over scores plus `build_alibi_tensor` of transformers 5.24 in modeling_bloom, the first column padded.
    #[test]
    fn alibi_by_attended_columns() {
        let attention = Attention { alibi: Some(Alibi::ByAttended(vec![0.062_5, 0.003_906_25])), ..plain() };
        assert_close(
            &attended(&attention, None, [0, 1, 1])[4..],
            &[-0.625, -1.0, -0.625, -1.0, 0.158_547_4, -0.287_684_2, 0.394_595_92, -0.073_094_666],
        );
    }

    /// Wanted: torch's softmax over scores plus slopes times columns.
    #[test]
    fn alibi_by_column() {
        let attention = Attention { alibi: Some(Alibi::ByColumn(vec![0.062_5, 0.5])), ..plain() };
        let wanted = [
            0.5,
            -0.125,
            0.5,
            -0.125,
            -0.179_843_7,
            -0.653_767_35,
            -0.217_472_18,
            -0.683_033_9,
            0.375_826_06,
            -0.184_162_32,
            0.508_451_8,
            0.017_570_496,
        ];
        assert_close(&attended(&attention, None, [1; 3]), &wanted);
    }
}
