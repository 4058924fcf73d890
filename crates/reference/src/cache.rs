//! Keys and values of the tokens so far.

use plansmith_families::DecoderSpec;
use plansmith_tensor::{CacheLayer, HostTensor};

/// Of one layer, one entry for each row and head: `[batch, kv_heads]`.
#[derive(Debug, Clone)]
pub(crate) struct LayerCache {
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) heads: Vec<HeadCache>,
}

/// Of one row and head: each `[past, head_dim]`.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeadCache {
    /// After rotation.
    pub(crate) key: Vec<f32>,
    pub(crate) value: Vec<f32>,
}

/// Empty caches of all layers for `batch` rows.
pub(crate) fn empty(spec: &DecoderSpec, batch: usize) -> Vec<LayerCache> {
    let layer = |kv_heads: usize, head_dim: usize| LayerCache { kv_heads, head_dim, heads: vec![HeadCache::default(); batch * kv_heads] };
    spec.layers.iter().map(|each| layer(each.attention.kv_heads as usize, each.attention.head_dim as usize)).collect()
}

impl LayerCache {
    /// Appends `sequence` tokens to each row; `key` and `value` are `[batch, sequence, kv_heads, head_dim]`.
    pub(crate) fn append(&mut self, sequence: usize, key: &[f32], value: &[f32]) {
        let Self { kv_heads, head_dim, ref mut heads } = *self;
        for (index, head) in heads.iter_mut().enumerate() {
            let (row, kv_head) = (index / kv_heads, index % kv_heads);
            for token in row * sequence..(row + 1) * sequence {
                let start = (token * kv_heads + kv_head) * head_dim;
                head.key.extend_from_slice(&key[start..start + head_dim]);
                head.value.extend_from_slice(&value[start..start + head_dim]);
            }
        }
    }

    /// A copy, `[batch, kv_heads, past, head_dim]`.
    pub(crate) fn copy(&self, past: usize) -> CacheLayer {
        let shape = vec![self.heads.len() / self.kv_heads, self.kv_heads, past, self.head_dim];
        let all =
            |part: fn(&HeadCache) -> &[f32]| HostTensor { shape: shape.clone(), data: self.heads.iter().flat_map(part).copied().collect() };
        CacheLayer { key: all(|head| &head.key), value: all(|head| &head.value) }
    }
}
