//! Operators that pick elements.

use plansmith_tensor::DType;

use crate::error::{Result, Rule};
use crate::node::{Output, since};
use crate::shapes::{axis_of, expect_dtype, expect_rank};
use crate::{Dim, Graph, Operand, Value};

fn is_index(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64)
}

impl Graph {
    /// The slices of `data` along `axis` at `indices` (int32 or int64; negative counts from the end). Returns `data`'s shape with that
    /// axis replaced by `indices`' shape: `[vocab, hidden]` at `[batch, seq]` is `[batch, seq, hidden]`.
    ///
    /// # Errors
    /// There is no such axis, or the indices are no integers.
    pub fn gather(&mut self, data: Value, indices: impl Into<Operand>, axis: i64) -> Result<Value> {
        let indices = indices.into();
        self.add_node("Gather", since(13), |g, node| {
            node.input(data);
            let indices = g.value_of(indices, DType::I64)?;
            node.input(indices).int("axis", axis);
            expect_dtype(g.dtype(indices), "I32 or I64 (the indices)", is_index)?;
            let (dims, picked) = (g.dims(data), g.dims(indices));
            let axis = axis_of(axis, dims.len())?;
            let mut result = dims[..axis].to_vec();
            result.extend(picked.iter().cloned());
            result.extend(dims[axis + 1..].iter().cloned());
            let content = (result.len() <= 1).then(|| g.picked_content(data, indices)).flatten();
            Ok(Output::new(g.dtype(data), result).with_content(content))
        })
    }

    fn picked_content(&self, data: Value, indices: Value) -> Option<Vec<Dim>> {
        let (content, indices) = (self.info(data).content.as_ref()?, self.info(indices).content.as_ref()?);
        let pick = |index: &Dim| content.get(axis_of(index.constant()?, content.len()).ok()?).cloned();
        indices.iter().map(pick).collect()
    }

    /// For each element of `indices` (int32 or int64) the element of `data` at the same place but for `axis`, where it is the index.
    /// Both of one rank; the other axes of `indices` are those of `data`. Returns `indices`' shape.
    ///
    /// # Errors
    /// Ranks, axes or dtypes do not fit.
    pub fn gather_elements(&mut self, data: Value, indices: Value, axis: i64) -> Result<Value> {
        self.add_node("GatherElements", since(13), |g, node| {
            node.input(data).input(indices).int("axis", axis);
            expect_dtype(g.dtype(indices), "I32 or I64 (the indices)", is_index)?;
            let (dims, picked) = (g.dims(data), g.dims(indices));
            expect_rank("the indices", &picked, dims.len())?;
            let axis = axis_of(axis, dims.len())?;
            for index in (0..dims.len()).filter(|&index| index != axis) {
                g.expect_dim(&format!("axis {index} of the data"), &dims[index], "of the indices", &picked[index])?;
            }
            Ok(Output::new(g.dtype(data), picked))
        })
    }

    /// For each index vector (last axis of `indices`, int64) the slice of `data` there; the first `batch_dims` axes are shared. `data`:
    /// `[batch, seq, hidden]`, `indices`: `[batch, n, 1]`, `batch_dims` 1 give `[batch, n, hidden]`.
    ///
    /// # Errors
    /// Ranks, shared axes or dtypes do not fit.
    pub fn gather_nd(&mut self, data: Value, indices: Value, batch_dims: usize) -> Result<Value> {
        self.add_node("GatherND", since(13), |g, node| {
            node.input(data).input(indices).int("batch_dims", batch_dims as i64);
            expect_dtype(g.dtype(indices), "I64 (the indices)", |dtype| dtype == DType::I64)?;
            let (dims, picked) = (g.dims(data), g.dims(indices));
            let [outer @ .., last] = &picked[..] else { return Err("the indices are a scalar".to_owned()) };
            let length = last.known().ok_or_else(|| format!("the last axis of the indices is {last}, must be a number"))? as usize;
            if length == 0 || batch_dims > outer.len() || batch_dims + length > dims.len() {
                return Err(format!("{batch_dims} shared axes and index vectors of {length} do not fit rank {}", dims.len()));
            }
            for index in 0..batch_dims {
                g.expect_dim(&format!("axis {index} of the data"), &dims[index], "of the indices", &picked[index])?;
            }
            Ok(Output::new(g.dtype(data), [outer, &dims[batch_dims + length..]].concat()))
        })
    }

    /// `x` from `start` up to but without `end` along `axis`; negative bounds count from the end, and `i64::MAX` is the end. Bounds may
    /// be [`Dim`]s. The new length is an expression only where the bounds are known to lie within the axis.
    ///
    /// # Errors
    /// There is no such axis, or a bound is neither a number nor a dimension.
    pub fn slice(&mut self, x: Value, axis: i64, start: impl Into<Operand>, end: impl Into<Operand>) -> Result<Value> {
        let (start, end) = (start.into(), end.into());
        self.add_node("Slice", since(13), |g, node| {
            node.input(x);
            let dims = g.dims(x);
            let index = axis_of(axis, dims.len())?;
            let mut bounds = Vec::new();
            for bound in [start, end] {
                let dim = match bound {
                    Operand::Int(number) => Dim::from_constant(number),
                    Operand::Dim(dim) => dim,
                    other => return Err(format!("{other:?} is no bound of a slice")),
                };
                let value = g.shape_tensor(std::slice::from_ref(&dim)).map_err(|error| error.to_string())?;
                node.input(value);
                bounds.extend(g.expand_all(&[dim]));
            }
            let axes = g.int_vector(&[index as i64])?;
            node.input(axes);
            let length = slice_length(&dims[index], &bounds[0], &bounds[1])?.unwrap_or_else(|| g.unknown_dim());
            let content = g.info(x).content.as_ref().and_then(|content| {
                let from = axis_bound(bounds[0].constant()?, content.len());
                let to = axis_bound(bounds[1].constant()?, content.len());
                Some(content.get(from..to).unwrap_or_default().to_vec())
            });
            let mut result = dims.to_vec();
            result[index] = length;
            Ok(Output::new(g.dtype(x), result).with_content(content))
        })
    }
}

/// A bound as an index into `length` elements.
fn axis_bound(bound: i64, length: usize) -> usize {
    let length = length as i64;
    let counted = if bound < 0 { bound.saturating_add(length) } else { bound };
    counted.clamp(0, length) as usize
}

/// The length of `[start, end)` within `dim`, or `None` where the operator's clamping may matter.
fn slice_length(dim: &Dim, start: &Dim, end: &Dim) -> Rule<Option<Dim>> {
    if let (Some(length), Some(start), Some(end)) = (dim.known(), start.constant(), end.constant()) {
        let length = length as usize;
        let (from, to) = (axis_bound(start, length), axis_bound(end, length));
        return if from < to { Ok(Some(Dim::from(to - from))) } else { Err(format!("{start}..{end} of axis length {length} is empty")) };
    }
    let to_the_end = end == dim || end.constant() == Some(i64::MAX);
    if start.constant() == Some(0) && to_the_end {
        return Ok(Some(dim.clone()));
    }
    // A start that is a part of the axis (`past` of `past + sequence`, 1 of `total + 1`) leaves the other parts.
    let within = |part: &Dim| {
        let rest = dim - part;
        let positive = |dim: &Dim| dim.terms().iter().all(|term| term.coefficient > 0) && dim.constant().is_none_or(|value| value >= 0);
        positive(part) && positive(&rest)
    };
    if to_the_end && within(start) {
        return Ok(Some(dim - start));
    }
    if start.constant() == Some(0) && end.constant().is_none() && within(end) {
        return Ok(Some(end.clone()));
    }
    Ok(None)
}
