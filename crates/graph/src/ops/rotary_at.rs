//! Rotary embedding by angles that the caller looked up or computed.

use plansmith_tensor::DType;

use crate::error::Result;
use crate::node::{Output, since};
use crate::shapes::{expect_dtype, expect_rank, expect_same, is_float};
use crate::{Dim, Graph, RotaryOptions, Value};

impl Graph {
    /// Rotates heads by given angles. `x`: `[batch, heads, seq, head_dim]`, `cos` and `sin`: `[batch, seq, rotary_dim / 2]` of `x`'s
    /// dtype. Returns `x`'s shape. Opset 23.
    ///
    /// # Errors
    /// Shapes or dtypes do not fit, or the graph is older than opset 23.
    pub fn rotary_at(&mut self, x: Value, cos: Value, sin: Value, options: RotaryOptions) -> Result<Value> {
        self.add_node("RotaryEmbedding", since(23), |g, node| {
            node.inputs([x, cos, sin]);
            let dims = g.dims(x);
            expect_rank("the input", &dims, 4)?;
            expect_dtype(g.dtype(x), "F32, F16 or BF16", |dtype| is_float(dtype) && dtype != DType::F64)?;
            let head = dims[3].known().ok_or_else(|| format!("head_dim is {}, must be a number", dims[3]))?;
            let rotated = options.rotate(node, head)?;
            for angles in [cos, sin] {
                let found = g.dims(angles);
                expect_same(g.dtype(x), g.dtype(angles))?;
                expect_rank("the angles", &found, 3)?;
                g.expect_dim("the batch", &dims[0], "axis 0 of the angles", &found[0])?;
                g.expect_dim("the sequence", &dims[2], "axis 1 of the angles", &found[1])?;
                g.expect_dim("half the rotated elements", &Dim::from(rotated / 2), "axis 2 of the angles", &found[2])?;
            }
            Ok(Output::new(g.dtype(x), dims))
        })
    }
}
