//! Matrix products.

use crate::error::Result;
use crate::node::{Output, since};
use crate::shapes::{expect_dtype, expect_rank, expect_same, is_float};
use crate::{Graph, Value};

impl Graph {
    /// `a · w` or, with `trans_b`, `a · wᵀ`, plus a bias. `a`: `[rows, in]`, `w`: `[in, out]` or `[out, in]`, `bias`: `[out]`; all of
    /// one float dtype. Returns `[rows, out]`.
    ///
    /// # Errors
    /// Ranks, inner dimensions or dtypes do not fit.
    pub fn gemm(&mut self, a: Value, w: Value, bias: Option<Value>, trans_b: bool) -> Result<Value> {
        self.add_node("Gemm", since(13), |g, node| {
            node.input(a).input(w).optional(bias);
            if trans_b {
                node.int("transB", 1);
            }
            let (left, right) = (g.dims(a), g.dims(w));
            expect_dtype(g.dtype(a), "a float", is_float)?;
            expect_same(g.dtype(a), g.dtype(w))?;
            expect_rank("the input", &left, 2)?;
            expect_rank("the weight", &right, 2)?;
            let (inner, outer) = if trans_b { (1, 0) } else { (0, 1) };
            g.expect_dim("axis 1 of the input", &left[1], &format!("axis {inner} of the weight"), &right[inner])?;
            if let Some(bias) = bias {
                let dims = g.dims(bias);
                expect_same(g.dtype(a), g.dtype(bias))?;
                expect_rank("the bias", &dims, 1)?;
                g.expect_dim("the bias", &dims[0], &format!("axis {outer} of the weight"), &right[outer])?;
            }
            Ok(Output::new(g.dtype(a), [left[0].clone(), right[outer].clone()]))
        })
    }

    /// The product of the last two axes, the others broadcast: `[..., m, k] · [..., k, n]`. Returns `[..., m, n]`.
    ///
    /// # Errors
    /// A rank below 2, or inner dimensions, outer dimensions or dtypes do not fit.
    pub fn matmul(&mut self, a: Value, b: Value) -> Result<Value> {
        self.add_node("MatMul", since(13), |g, node| {
            node.input(a).input(b);
            let (left, right) = (g.dims(a), g.dims(b));
            expect_dtype(g.dtype(a), "a float", is_float)?;
            expect_same(g.dtype(a), g.dtype(b))?;
            let ([outer_a @ .., m, k_a], [outer_b @ .., k_b, n]) = (&left[..], &right[..]) else {
                return Err(format!("ranks are {} and {}, must be 2 or more", left.len(), right.len()));
            };
            g.expect_dim("the last axis of the first", k_a, "the last but one axis of the second", k_b)?;
            let mut dims = g.broadcast(outer_a, outer_b)?;
            dims.extend([m.clone(), n.clone()]);
            Ok(Output::new(g.dtype(a), dims))
        })
    }
}
