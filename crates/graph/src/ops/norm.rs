//! Normalisations over the last axis.

use crate::error::Result;
use crate::node::{Output, since};
use crate::shapes::{expect_dtype, expect_rank, expect_same, is_float};
use crate::{Graph, Value};

impl Graph {
    /// `x / √(mean(x²) + epsilon) · scale` over the last axis, computed in fp32. `x`: `[..., n]`, `scale`: `[n]`. Returns `x`'s shape in
    /// `scale`'s dtype. Opset 23.
    ///
    /// # Errors
    /// Lengths do not fit, a dtype is no float, or the graph is older than opset 23.
    pub fn rms_norm(&mut self, x: Value, scale: Value, epsilon: f32) -> Result<Value> {
        self.add_node("RMSNormalization", since(23), |g, node| {
            node.input(x).input(scale).int("axis", -1).float("epsilon", epsilon);
            g.check_norm(x, scale)?;
            expect_dtype(g.dtype(scale), "a float", is_float)?;
            Ok(Output::new(g.dtype(scale), g.dims(x)))
        })
    }

    /// `(x - mean(x)) / √(var(x) + epsilon) · scale + bias` over the last axis, computed in fp32. `x`: `[..., n]`, `scale` and `bias`:
    /// `[n]`; one float dtype. Returns `x`'s shape.
    ///
    /// # Errors
    /// Lengths or dtypes do not fit.
    pub fn layer_norm(&mut self, x: Value, scale: Value, bias: Option<Value>, epsilon: f32) -> Result<Value> {
        self.add_node("LayerNormalization", since(17), |g, node| {
            node.input(x).input(scale).optional(bias).int("axis", -1).float("epsilon", epsilon);
            for weight in [Some(scale), bias].into_iter().flatten() {
                g.check_norm(x, weight)?;
                expect_same(g.dtype(x), g.dtype(weight))?;
            }
            Ok(Output::new(g.dtype(x), g.dims(x)))
        })
    }

    fn check_norm(&self, x: Value, weight: Value) -> crate::error::Rule<()> {
        let (dims, weight_dims) = (self.dims(x), self.dims(weight));
        expect_dtype(self.dtype(x), "a float", is_float)?;
        expect_rank("the weight", &weight_dims, 1)?;
        let last = dims.last().ok_or("the input is a scalar")?;
        self.expect_dim("the last axis of the input", last, "the weight", &weight_dims[0])
    }
}
