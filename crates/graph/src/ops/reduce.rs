//! Reductions, cumulative sums, the largest elements.

use std::sync::Arc;

use plansmith_tensor::DType;

use crate::error::Result;
use crate::node::{Output, since};
use crate::shapes::{axis_of, expect_dtype, is_float, is_integer};
use crate::{Dim, Graph, Value};

fn is_wide(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64 | DType::U32 | DType::U64)
}

impl Graph {
    /// The mean over `axes`, which stay as 1 with `keep`. Floats.
    ///
    /// # Errors
    /// The dtype is no float, or an axis does not exist or is given twice.
    pub fn reduce_mean(&mut self, x: Value, axes: &[i64], keep: bool) -> Result<Value> {
        self.reduce("ReduceMean", 18, x, axes, keep)
    }

    /// The sum over `axes`, which stay as 1 with `keep`. Floats, 32 and 64 bit integers.
    ///
    /// # Errors
    /// The dtype is none of these, or an axis does not exist or is given twice.
    pub fn reduce_sum(&mut self, x: Value, axes: &[i64], keep: bool) -> Result<Value> {
        self.reduce("ReduceSum", 13, x, axes, keep)
    }

    /// The largest over `axes`, which stay as 1 with `keep`. Floats, 32 and 64 bit integers.
    ///
    /// # Errors
    /// The dtype is none of these, or an axis does not exist or is given twice.
    pub fn reduce_max(&mut self, x: Value, axes: &[i64], keep: bool) -> Result<Value> {
        self.reduce("ReduceMax", 18, x, axes, keep)
    }

    fn reduce(&mut self, op: &'static str, version: u32, x: Value, axes: &[i64], keep: bool) -> Result<Value> {
        self.add_node(op, since(version), |g, node| {
            node.input(x);
            let dtype = g.dtype(x);
            expect_dtype(dtype, "a float or a 32 or 64 bit integer", |dtype| is_float(dtype) || (op != "ReduceMean" && is_wide(dtype)))?;
            let list = g.int_vector(axes)?;
            node.input(list).int("keepdims", i64::from(keep));
            let dims = g.dims(x);
            let mut reduced = vec![false; dims.len()];
            for &axis in axes {
                if std::mem::replace(&mut reduced[axis_of(axis, dims.len())?], true) {
                    return Err(format!("axis {axis} is given twice"));
                }
            }
            if axes.is_empty() {
                return Err("no axes are given".to_owned());
            }
            let left = dims.iter().zip(reduced).filter_map(|(dim, reduced)| match reduced {
                true => keep.then(|| Dim::from(1)),
                false => Some(dim.clone()),
            });
            Ok(Output::new(dtype, left.collect::<Arc<[_]>>()))
        })
    }

    /// The running sum along `axis`, each element included. Floats, 32 and 64 bit integers. Returns the shape of `x`.
    ///
    /// # Errors
    /// The dtype is none of these, or there is no such axis.
    pub fn cumsum(&mut self, x: Value, axis: i64) -> Result<Value> {
        self.add_node("CumSum", since(14), |g, node| {
            node.input(x);
            let dims = g.dims(x);
            expect_dtype(g.dtype(x), "a float or a 32 or 64 bit integer", |dtype| is_float(dtype) || is_wide(dtype))?;
            axis_of(axis, dims.len())?;
            let axis = g.value_of(axis.into(), DType::I64)?;
            node.input(axis);
            Ok(Output::new(g.dtype(x), dims))
        })
    }

    /// The `count` largest along `axis`, in descending order. Returns values and their int64 indices, both with `count` at `axis`.
    ///
    /// # Errors
    /// The dtype is no number, there is no such axis, or it is known to be shorter than `count`.
    pub fn top_k(&mut self, x: Value, count: u64, axis: i64) -> Result<(Value, Value)> {
        // Older versions leave bfloat16 out.
        let version = if self.dtype(x) == DType::BF16 { 24 } else { 11 };
        let [values, indices] = self.add_nodes("TopK", since(version), |g, node| {
            node.input(x);
            let count_value = g.int_vector(&[count as i64])?;
            node.input(count_value).int("axis", axis);
            let dtype = g.dtype(x);
            expect_dtype(dtype, "a float or an integer", |dtype| is_float(dtype) || is_integer(dtype))?;
            let mut dims = g.dims(x).to_vec();
            let axis = axis_of(axis, dims.len())?;
            if let Some(length) = dims[axis].known()
                && length < count
            {
                return Err(format!("axis {axis} is {length}, shorter than {count}"));
            }
            dims[axis] = count.into();
            Ok([Output::new(dtype, dims.clone()), Output::new(DType::I64, dims)])
        })?;
        Ok((values, indices))
    }
}
