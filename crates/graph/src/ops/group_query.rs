//! Attention as ONNX Runtime's own operator.

use plansmith_tensor::DType;

use crate::error::Result;
use crate::node::{Output, Since};
use crate::shapes::{expect_dtype, expect_rank, expect_same, is_float};
use crate::{Dim, Graph, Value};

/// ONNX Runtime's own operators (`docs/ContribOperators.md` there).
const CONTRIB: Since = Since { domain: "com.microsoft", version: 1 };

/// What [`Graph::group_query_attention`] reads.
#[derive(Debug, Clone, Copy)]
pub struct GroupQuery {
    /// `[batch, seq, heads × head_dim]`, rotated.
    pub query: Value,
    /// `[batch, seq, kv_heads × head_dim]`, rotated.
    pub key: Value,
    /// `[batch, seq, kv_heads × head_dim]`.
    pub value: Value,
    /// `[batch, kv_heads, past, head_dim]`; or longer, where the runtime writes into it.
    pub past_key: Value,
    /// As `past_key`.
    pub past_value: Value,
    /// int32 `[batch]`: columns of each row less one, those of this step included.
    pub last_columns: Value,
    /// int32 scalar: columns, those of this step included.
    pub columns: Value,
    /// `[batch or 1, heads or 1, seq, total]`, added to the scores behind cap and scale.
    pub bias: Value,
    /// Query heads.
    pub heads: u64,
    /// Key heads.
    pub kv_heads: u64,
    /// Factor of the scores.
    pub scale: f32,
    /// `cap · tanh(scores / cap)`.
    pub softcap: Option<f32>,
}

impl Graph {
    /// `com.microsoft::GroupQueryAttention` without rotation: appends to the cache and attends, causally and with the bias. Returns
    /// `[batch, seq, heads × head_dim]` and both caches, `[batch, kv_heads, total, head_dim]`.
    ///
    /// # Errors
    /// Shapes or dtypes do not fit.
    pub fn group_query_attention(&mut self, with: GroupQuery) -> Result<[Value; 3]> {
        self.add_nodes("GroupQueryAttention", CONTRIB, |g, node| {
            let GroupQuery { query, key, value, past_key, past_value, last_columns, columns, bias, heads, kv_heads, scale, softcap } = with;
            node.inputs([query, key, value, past_key, past_value, last_columns, columns]);
            // The tables and positions of a rotation inside.
            node.optional(None).optional(None).optional(None).input(bias);
            node.int("num_heads", heads as i64).int("kv_num_heads", kv_heads as i64).float("scale", scale);
            if let Some(cap) = softcap {
                node.float("softcap", cap);
            }
            let dtype = g.dtype(query);
            expect_dtype(dtype, "a float", is_float)?;
            for operand in [key, value, past_key, past_value, bias] {
                expect_same(dtype, g.dtype(operand))?;
            }
            for operand in [last_columns, columns] {
                expect_dtype(g.dtype(operand), "I32 (the columns)", |dtype| dtype == DType::I32)?;
            }
            expect_rank("the columns of each row", &g.dims(last_columns), 1)?;
            expect_rank("the columns", &g.dims(columns), 0)?;
            let [query_dims, past, scores] = [query, past_key, bias].map(|operand| g.dims(operand));
            expect_rank("the query", &query_dims, 3)?;
            expect_rank("the cache", &past, 4)?;
            expect_rank("the bias", &scores, 4)?;
            let head_dim = past[3].known().ok_or_else(|| format!("head_dim is {}, must be a number", past[3]))?;
            g.expect_dim("the query's width", &query_dims[2], "heads × head_dim", &Dim::from(heads * head_dim))?;
            for (name, operand) in [("the key's width", key), ("the value's width", value)] {
                let dims = g.dims(operand);
                expect_rank(name, &dims, 3)?;
                g.expect_dim("the batch", &query_dims[0], name, &dims[0])?;
                g.expect_dim("the sequence", &query_dims[1], name, &dims[1])?;
                g.expect_dim(name, &dims[2], "kv_heads × head_dim", &Dim::from(kv_heads * head_dim))?;
            }
            g.expect_dim("kv_heads", &Dim::from(kv_heads), "the heads of the cache", &past[1])?;
            g.expect_dim("the sequence", &query_dims[1], "axis 2 of the bias", &scores[2])?;
            if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
                return Err(format!("{heads} query heads are no multiple of {kv_heads} key heads"));
            }
            let cache = [past[0].clone(), past[1].clone(), scores[3].clone(), past[3].clone()];
            Ok([Output::new(dtype, query_dims), Output::new(dtype, cache.clone()), Output::new(dtype, cache)])
        })
    }
}
