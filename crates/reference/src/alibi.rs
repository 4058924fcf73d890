//! Linear bias by distance.

use plansmith_families::Alibi;
use plansmith_tensor::Batch;

/// What the slopes are multiplied by, `[batch, total]`.
pub(crate) fn distances(alibi: &Alibi, batch: &Batch) -> Vec<f32> {
    let rows = batch.attention_mask.chunks_exact(batch.total());
    match alibi {
        Alibi::ByColumn(_) => rows.flat_map(|row| (0..row.len()).map(|column| column as f32)).collect(),
        Alibi::ByAttended(_) => rows.flat_map(attended_before).collect(),
    }
}

fn attended_before(mask: &[i64]) -> impl Iterator<Item = f32> {
    mask.iter().scan(0, |count, &attend| {
        let before = *count;
        *count += u32::from(attend != 0);
        Some(if attend == 0 { 0.0 } else { before as f32 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_counts_by_column_only() {
        // By transformers' build_alibi_tensor of BLOOM: ((mask.cumsum(-1) - 1) * mask).
        let mask = [0, 0, 1, 1, 1, 0, 1, 1];
        let batch = Batch { batch: 2, sequence: 1, input_ids: vec![0; 2], attention_mask: mask.to_vec(), position_ids: vec![0; 2] };
        assert_eq!(distances(&Alibi::ByAttended(vec![1.0]), &batch), [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 2.0]);
        assert_eq!(distances(&Alibi::ByColumn(vec![1.0]), &batch), [0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0]);
    }
}
