//! Queries, keys and values.

use plansmith_families::{Attention, Part, Projections};

use crate::linear::linear;
use crate::weights::Weights;

/// `[tokens, heads, head_dim]`, keys and values with `kv_heads`.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Projected {
    pub(crate) query: Vec<f32>,
    pub(crate) key: Vec<f32>,
    pub(crate) value: Vec<f32>,
}

/// Projects `x`, `[tokens, hidden_size]`.
pub(crate) fn project(weights: &Weights, attention: &Attention, x: &[f32]) -> Projected {
    match &attention.projections {
        Projections::Separate { query, key, value } => {
            // Side by side, no thread waits for the last task of one before it begins another.
            let both = || rayon::join(|| linear(weights, key, x), || linear(weights, value, x));
            let (query, (key, value)) = rayon::join(|| linear(weights, query, x), both);
            Projected { query, key, value }
        }
        Projections::Fused { linear: fused, blocks, order } => {
            let heads = |count: u64| (count * attention.head_dim / blocks) as usize;
            take_apart(&linear(weights, fused, x), heads(attention.heads), heads(attention.kv_heads), *order)
        }
    }
}

/// `fused` is `[tokens, blocks, …]`, each block the parts in `order`: `query` elements of queries, `key` of keys and of values.
fn take_apart(fused: &[f32], query: usize, key: usize, order: [Part; 3]) -> Projected {
    let mut parts = Projected::default();
    for block in fused.chunks_exact(query + 2 * key) {
        let mut rest = block;
        for part in order {
            let (width, target) = match part {
                Part::Query => (query, &mut parts.query),
                Part::Key => (key, &mut parts.key),
                Part::Value => (key, &mut parts.value),
            };
            let (first, later) = rest.split_at(width);
            target.extend_from_slice(first);
            rest = later;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use Part::{Key, Query, Value};

    fn apart(fused: u8, query: usize, key: usize, order: [Part; 3]) -> [Vec<u8>; 3] {
        let fused: Vec<f32> = (0..fused).map(f32::from).collect();
        let Projected { query, key, value } = take_apart(&fused, query, key, order);
        [query, key, value].map(|part| part.into_iter().map(|each| each as u8).collect())
    }

    /// Wanted: `arange(n)` through the views of transformers 5.24, two tokens each.
    #[test]
    fn every_block_is_taken_apart() {
        // Phi-3: 2 heads over 1, head_dim 2, one block.
        assert_eq!(apart(16, 4, 2, [Query, Key, Value]), [vec![0, 1, 2, 3, 8, 9, 10, 11], vec![4, 5, 12, 13], vec![6, 7, 14, 15]]);
        // GPT-NeoX: 2 heads, head_dim 1, a block a head.
        assert_eq!(apart(12, 1, 1, [Query, Key, Value]), [vec![0, 3, 6, 9], vec![1, 4, 7, 10], vec![2, 5, 8, 11]]);
        // Falcon with 4 heads over 2, head_dim 1: a block a key head.
        assert_eq!(apart(16, 2, 1, [Query, Key, Value]), [vec![0, 1, 4, 5, 8, 9, 12, 13], vec![2, 6, 10, 14], vec![3, 7, 11, 15]]);
        // CodeGen: values before keys.
        assert_eq!(apart(12, 2, 2, [Query, Value, Key]), [vec![0, 1, 6, 7], vec![4, 5, 10, 11], vec![2, 3, 8, 9]]);
    }
}
