//! Rotary embedding, scaled dot-product attention, the in-place cache.

use plansmith_tensor::DType;

use crate::error::{Result, Rule};
use crate::node::{Draft, Output, since};
use crate::shapes::{expect_dtype, expect_rank, expect_same, is_float};
use crate::{Dim, Graph, Value};

/// How [`Graph::rotary`] rotates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RotaryOptions {
    /// Pairs are neighbours (`0,1`, `2,3`, …) instead of halves (`0,n/2`, …).
    pub interleaved: bool,
    /// How many of the head's first elements are rotated; `None` rotates all.
    pub rotary_dim: Option<u64>,
}

impl RotaryOptions {
    /// Writes the attributes; how many elements of a head are rotated.
    pub(super) fn rotate(self, node: &mut Draft, head_dim: u64) -> Rule<u64> {
        if self.interleaved {
            node.int("interleaved", 1);
        }
        if let Some(rotary_dim) = self.rotary_dim {
            node.int("rotary_embedding_dim", rotary_dim as i64);
        }
        match self.rotary_dim.unwrap_or(head_dim) {
            rotated if rotated > head_dim || !rotated.is_multiple_of(2) || rotated == 0 => {
                Err(format!("rotary_embedding_dim is {rotated}, must be even and at most head_dim {head_dim}"))
            }
            rotated => Ok(rotated),
        }
    }
}

/// How [`Graph::attention`] weighs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AttentionOptions {
    /// Factor of the scores; `None` is `1/√head_dim`.
    pub scale: Option<f32>,
    /// `cap · tanh(scores / cap)` before the mask.
    pub softcap: Option<f32>,
    /// The dtype that softmax is computed in; `None` leaves it to the runtime.
    pub softmax_precision: Option<DType>,
}

impl Graph {
    /// Rotates heads by position. `x`: `[batch, heads, seq, head_dim]`, `cos` and `sin`: `[max_position, rotary_dim / 2]` of `x`'s dtype,
    /// `position_ids`: int64 `[batch, seq]`. Returns `x`'s shape. Opset 23.
    ///
    /// # Errors
    /// Shapes or dtypes do not fit, or the graph is older than opset 23.
    pub fn rotary(&mut self, x: Value, cos: Value, sin: Value, position_ids: Value, options: RotaryOptions) -> Result<Value> {
        self.add_node("RotaryEmbedding", since(23), |g, node| {
            node.inputs([x, cos, sin, position_ids]);
            let dims = g.dims(x);
            expect_rank("the input", &dims, 4)?;
            expect_dtype(g.dtype(x), "F32, F16 or BF16", |dtype| is_float(dtype) && dtype != DType::F64)?;
            expect_dtype(g.dtype(position_ids), "I64 (the positions)", |dtype| dtype == DType::I64)?;
            let head = dims[3].known().ok_or_else(|| format!("head_dim is {}, must be a number", dims[3]))?;
            let rotated = options.rotate(node, head)?;
            for table in [cos, sin] {
                let table_dims = g.dims(table);
                expect_same(g.dtype(x), g.dtype(table))?;
                expect_rank("the table", &table_dims, 2)?;
                g.expect_dim("half the rotated elements", &Dim::from(rotated / 2), "axis 1 of the table", &table_dims[1])?;
            }
            g.expect_dim("axis 0 of cos", &g.dims(cos)[0], "axis 0 of sin", &g.dims(sin)[0])?;
            let positions = g.dims(position_ids);
            expect_rank("the positions", &positions, 2)?;
            g.expect_dim("the batch", &dims[0], "axis 0 of the positions", &positions[0])?;
            g.expect_dim("the sequence", &dims[2], "axis 1 of the positions", &positions[1])?;
            Ok(Output::new(g.dtype(x), dims))
        })
    }

    /// `softmax(scale · q kᵀ + mask) v`, each key head serving `heads / kv_heads` query heads. `q`: `[batch, heads, seq, head_dim]`, `k`:
    /// `[batch, kv_heads, total, head_dim]`, `v`: `[batch, kv_heads, total, v_dim]`, `mask`: bool (true: attend) or `q`'s dtype (added),
    /// broadcasting to `[batch, heads, seq, total]`. Returns `[batch, heads, seq, v_dim]`. Opset 23.
    ///
    /// # Errors
    /// Shapes or dtypes do not fit, or the graph is older than opset 23.
    pub fn attention(&mut self, q: Value, k: Value, v: Value, mask: Option<Value>, options: AttentionOptions) -> Result<Value> {
        self.add_node("Attention", since(23), |g, node| {
            node.inputs([q, k, v]).optional(mask);
            for (name, value) in [("scale", options.scale), ("softcap", options.softcap)] {
                if let Some(value) = value {
                    node.float(name, value);
                }
            }
            if let Some(dtype) = options.softmax_precision {
                let number = plansmith_onnx::data_type(dtype).ok_or_else(|| format!("ONNX has no dtype {dtype}"))?;
                node.int("softmax_precision", i64::from(number));
            }
            let [query, key, value] = [q, k, v].map(|operand| g.dims(operand));
            for (name, operand, dims) in [("q", q, &query), ("k", k, &key), ("v", v, &value)] {
                expect_rank(name, dims, 4)?;
                expect_dtype(g.dtype(operand), "a float", is_float)?;
                expect_same(g.dtype(q), g.dtype(operand))?;
            }
            for (name, other) in [("k", &key), ("v", &value)] {
                g.expect_dim("the batch of q", &query[0], &format!("the batch of {name}"), &other[0])?;
            }
            g.expect_dim("the heads of k", &key[1], "the heads of v", &value[1])?;
            g.expect_dim("the length of k", &key[2], "the length of v", &value[2])?;
            g.expect_dim("head_dim of q", &query[3], "head_dim of k", &key[3])?;
            match (query[1].known(), key[1].known()) {
                (Some(heads), Some(kv_heads)) if kv_heads != 0 && heads.is_multiple_of(kv_heads) => {}
                _ => return Err(format!("q has {} heads, k has {}: not a multiple", query[1], key[1])),
            }
            if let Some(mask) = mask {
                let dtype = g.dtype(q);
                expect_dtype(g.dtype(mask), &format!("BOOL or {dtype} (the mask)"), |found| found == DType::Bool || found == dtype)?;
                let scores = [query[0].clone(), query[1].clone(), query[2].clone(), key[2].clone()];
                if !(2..=4).contains(&g.dims(mask).len()) || g.broadcast(&g.dims(mask), &scores)? != scores {
                    return Err(format!("the mask does not broadcast to {scores:?}"));
                }
            }
            Ok(Output::new(g.dtype(q), [query[0].clone(), query[1].clone(), query[2].clone(), value[3].clone()]))
        })
    }

    /// `cache` with `update` written from each row's `write_indices` on. `cache`: `[batch, kv_heads, max_length, head_dim]`, `update`:
    /// `[batch, kv_heads, seq, head_dim]` of one dtype, `write_indices`: int64 `[batch]`. Returns the cache's shape. Opset 24.
    ///
    /// # Errors
    /// Shapes or dtypes do not fit, or the graph is older than opset 24.
    pub fn tensor_scatter(&mut self, cache: Value, update: Value, write_indices: Value) -> Result<Value> {
        self.add_node("TensorScatter", since(24), |g, node| {
            node.inputs([cache, update, write_indices]).int("axis", -2).text("mode", "linear");
            let (into, new, rows) = (g.dims(cache), g.dims(update), g.dims(write_indices));
            expect_same(g.dtype(cache), g.dtype(update))?;
            expect_dtype(g.dtype(write_indices), "I64 (the indices)", |dtype| dtype == DType::I64)?;
            expect_rank("the cache", &into, 4)?;
            expect_rank("the update", &new, 4)?;
            expect_rank("the indices", &rows, 1)?;
            for axis in [0, 1, 3] {
                g.expect_dim(&format!("axis {axis} of the cache"), &into[axis], &format!("axis {axis} of the update"), &new[axis])?;
            }
            g.expect_dim("the batch", &into[0], "axis 0 of the indices", &rows[0])?;
            Ok(Output::new(g.dtype(cache), into))
        })
    }
}
