//! Operators that make tensors from shapes and numbers.

use std::ops::Range;

use plansmith_tensor::DType;

use crate::error::Result;
use crate::node::{Output, since};
use crate::shapes::{expect_dtype, expect_rank};
use crate::{Dim, Graph, Operand, Value};

impl Graph {
    /// The dimensions of `x` on `axes`, as an int64 vector.
    ///
    /// # Errors
    /// `x` does not have these axes.
    pub fn shape_of(&mut self, x: Value, axes: Range<usize>) -> Result<Value> {
        self.add_node("Shape", since(15), |g, node| {
            node.input(x);
            let dims = g.dims(x);
            let picked = dims.get(axes.clone()).ok_or_else(|| format!("axes {axes:?} are outside of rank {}", dims.len()))?;
            node.int("start", axes.start as i64).int("end", axes.end as i64);
            Ok(Output::new(DType::I64, [Dim::from(picked.len())]).with_content(Some(picked.to_vec())))
        })
    }

    /// `start, start + delta, …` up to but without `limit`: scalars of one dtype (plain numbers and [`Dim`]s are int64). Returns a
    /// vector, whose length is known where the bounds are computed from dimensions and `delta` is 1.
    ///
    /// # Errors
    /// An operand is no scalar, dtypes differ, or `delta` is 0.
    pub fn range(&mut self, start: impl Into<Operand>, limit: impl Into<Operand>, delta: impl Into<Operand>) -> Result<Value> {
        let operands = [start.into(), limit.into(), delta.into()];
        self.add_node("Range", since(11), |g, node| {
            let dtype = operands.iter().find_map(|operand| g.dtype_of(operand)).unwrap_or(DType::I64);
            expect_dtype(dtype, "F32, F64, I16, I32 or I64", |dtype| {
                matches!(dtype, DType::F32 | DType::F64 | DType::I16 | DType::I32 | DType::I64)
            })?;
            let mut contents = Vec::new();
            for (name, operand) in ["start", "limit", "delta"].into_iter().zip(operands) {
                let value = g.value_of(operand, dtype)?;
                node.input(value);
                expect_rank(name, &g.dims(value), 0)?;
                expect_dtype(g.dtype(value), &format!("{dtype} ({name})"), |found| found == dtype)?;
                contents.push(g.info(value).content.as_ref().map(|content| content[0].clone()));
            }
            let length = match &contents[..] {
                [Some(start), Some(limit), Some(delta)] => match (delta.constant(), (limit - start).constant()) {
                    (Some(0), _) => return Err("delta is 0".to_owned()),
                    (Some(1), None) => Some(limit - start),
                    (Some(delta), Some(span)) => Some(Dim::from_constant((span / delta + i64::from(span % delta != 0)).max(0))),
                    _ => None,
                },
                _ => None,
            };
            let length = length.unwrap_or_else(|| g.unknown_dim());
            Ok(Output::new(dtype, [length]))
        })
    }

    /// A dimension that the run decides and no expression of the inputs' dimensions is known for: equal to itself only.
    pub(crate) fn unknown_dim(&mut self) -> Dim {
        self.unknown_dims += 1;
        Dim::symbol(&format!("unknown_{}", self.unknown_dims))
    }
}
