//! Operators that rearrange elements and keep them all.

use std::sync::Arc;

use crate::error::Result;
use crate::node::{Output, since};
use crate::shapes::{axis_of, elements, expect_rank, expect_same};
use crate::{Dim, Graph, Value};

impl Graph {
    /// `x` in the shape `dims`, row-major; `x` itself where it has it already. The shape operand is made of numbers where they are
    /// known, 0 where a dimension stays in its place, one -1, and sizes read off the inputs.
    ///
    /// # Errors
    /// The numbers of elements are not provably equal; no input has a dimension that must be computed.
    pub fn reshape(&mut self, x: Value, dims: &[Dim]) -> Result<Value> {
        let to = self.expand_all(dims);
        let from = self.dims(x);
        if *from == to[..] {
            return Ok(x);
        }
        self.add_node("Reshape", since(14), |g, node| {
            node.input(x);
            let (before, after) = (elements(&from), elements(&to));
            if before != after {
                let shape = g.show(&crate::Type::new(g.dtype(x), to));
                return Err(format!("{} elements do not make {shape}, which has {}", g.dim_text(&before), g.dim_text(&after)));
            }
            let shape = g.reshape_operand(&from, &to)?;
            node.input(shape);
            Ok(Output::new(g.dtype(x), to))
        })
    }

    /// Axis `i` of the result is axis `permutation[i]` of `x`.
    ///
    /// # Errors
    /// `permutation` is not one of `x`'s axes.
    pub fn transpose(&mut self, x: Value, permutation: &[usize]) -> Result<Value> {
        self.add_node("Transpose", since(13), |g, node| {
            node.input(x).ints("perm", permutation.iter().map(|&axis| axis as i64).collect());
            let dims = g.dims(x);
            let mut sorted = permutation.to_vec();
            sorted.sort_unstable();
            if !sorted.iter().copied().eq(0..dims.len()) {
                return Err(format!("{permutation:?} is no permutation of {} axes", dims.len()));
            }
            Ok(Output::new(g.dtype(x), permutation.iter().map(|&axis| dims[axis].clone()).collect::<Arc<[_]>>()))
        })
    }

    /// `parts` one after the other along `axis`. All of one dtype and rank, the other dimensions equal.
    ///
    /// # Errors
    /// No parts, or they do not fit each other.
    pub fn concat(&mut self, parts: &[Value], axis: i64) -> Result<Value> {
        self.add_node("Concat", since(13), |g, node| {
            node.inputs(parts.iter().copied()).int("axis", axis);
            let [first, rest @ ..] = parts else { return Err("there is nothing to join".to_owned()) };
            let mut dims = g.dims(*first).to_vec();
            let axis = axis_of(axis, dims.len())?;
            for (number, &part) in rest.iter().enumerate() {
                let part_dims = g.dims(part);
                expect_same(g.dtype(*first), g.dtype(part))?;
                expect_rank(&format!("part {}", number + 1), &part_dims, dims.len())?;
                for index in (0..dims.len()).filter(|&index| index != axis) {
                    g.expect_dim(&format!("axis {index} of part 0"), &dims[index], &format!("of part {}", number + 1), &part_dims[index])?;
                }
                dims[axis] = &dims[axis] + &part_dims[axis];
            }
            let content: Option<Vec<_>> = parts.iter().map(|&part| g.info(part).content.clone()).collect();
            Ok(Output::new(g.dtype(*first), dims)
                .with_content(content.map(|parts| parts.iter().flat_map(|part| part.iter().cloned()).collect())))
        })
    }

    /// `x` cut along `axis` into pieces of `sizes`, which make up its whole length.
    ///
    /// # Errors
    /// There is no such axis, its length is not a number, or not the sum of `sizes`.
    pub fn split(&mut self, x: Value, axis: i64, sizes: &[u64]) -> Result<Vec<Value>> {
        self.add_nodes("Split", since(18), |g, node| {
            let lengths = g.int_vector(&sizes.iter().map(|&size| size as i64).collect::<Vec<_>>())?;
            node.input(x).input(lengths).int("axis", axis);
            let dims = g.dims(x);
            let index = axis_of(axis, dims.len())?;
            let sum = sizes.iter().fold(Dim::from(0), |sum, &size| sum + size);
            g.expect_dim(&format!("axis {index}"), &dims[index], "the sum of the sizes", &sum)?;
            let piece = |&size: &u64| {
                let mut piece = dims.to_vec();
                piece[index] = size.into();
                Output::new(g.dtype(x), piece)
            };
            Ok(sizes.iter().map(piece).collect::<Vec<_>>())
        })
    }

    /// `x` with an axis of length 1 inserted at each of `axes` (counted in the result).
    ///
    /// # Errors
    /// An axis is outside of the result or given twice.
    pub fn unsqueeze(&mut self, x: Value, axes: &[i64]) -> Result<Value> {
        self.add_node("Unsqueeze", since(13), |g, node| {
            let list = g.int_vector(axes)?;
            node.input(x).input(list);
            let dims = g.dims(x);
            let rank = dims.len() + axes.len();
            let mut rest = dims.iter();
            let inserted = axes.iter().map(|&axis| axis_of(axis, rank)).collect::<Result<Vec<_>, _>>()?;
            if inserted.iter().collect::<std::collections::HashSet<_>>().len() != axes.len() {
                return Err(format!("axes {axes:?} name one axis twice"));
            }
            let dim = |index| if inserted.contains(&index) { Some(Dim::from(1)) } else { rest.next().cloned() };
            let result: Arc<[Dim]> = (0..rank).filter_map(dim).collect();
            let content = g.info(x).content.as_ref().filter(|_| rank <= 1).map(|content| content.to_vec());
            Ok(Output::new(g.dtype(x), result).with_content(content))
        })
    }

    /// `x` without `axes`, which have length 1.
    ///
    /// # Errors
    /// An axis does not exist or is not 1.
    pub fn squeeze(&mut self, x: Value, axes: &[i64]) -> Result<Value> {
        self.add_node("Squeeze", since(13), |g, node| {
            let list = g.int_vector(axes)?;
            node.input(x).input(list);
            let dims = g.dims(x);
            let removed = axes.iter().map(|&axis| axis_of(axis, dims.len())).collect::<Result<Vec<_>, _>>()?;
            if let Some(&axis) = removed.iter().find(|&&axis| dims[axis].known() != Some(1)) {
                return Err(format!("axis {axis} is {}, must be 1", g.dim_text(&dims[axis])));
            }
            let left = dims.iter().enumerate().filter(|(index, _)| !removed.contains(index)).map(|(_, dim)| dim.clone());
            let content = g.info(x).content.as_ref().map(|content| content.to_vec());
            Ok(Output::new(g.dtype(x), left.collect::<Arc<[_]>>()).with_content(content))
        })
    }

    /// `x` repeated along axes of length 1, and new outer axes, to the shape `dims`; `x` itself where it has it already.
    ///
    /// # Errors
    /// `x` does not broadcast to `dims`; no input has a dimension that must be computed.
    pub fn expand(&mut self, x: Value, dims: &[Dim]) -> Result<Value> {
        let to = self.expand_all(dims);
        let from = self.dims(x);
        if *from == to[..] {
            return Ok(x);
        }
        self.add_node("Expand", since(13), |g, node| {
            node.input(x);
            if g.broadcast(&from, &to)? != to {
                return Err(format!("it does not broadcast to {}", g.show(&crate::Type::new(g.dtype(x), to))));
            }
            // 1 keeps what the tensor has, so only what is really repeated need be computed.
            let offset = to.len() - from.len();
            let kept = |axis: usize| axis.checked_sub(offset).is_some_and(|index| from[index] == to[axis]);
            let operand: Vec<Dim> = to.iter().enumerate().map(|(axis, dim)| if kept(axis) { Dim::from(1) } else { dim.clone() }).collect();
            let shape = g.shape_tensor(&operand).map_err(|error| error.to_string())?;
            node.input(shape);
            Ok(Output::new(g.dtype(x), to))
        })
    }

    /// `x` itself, as a value of its own.
    ///
    /// # Errors
    /// None of its own.
    pub fn identity(&mut self, x: Value) -> Result<Value> {
        self.add_node("Identity", since(13), |g, node| {
            node.input(x);
            let content = g.info(x).content.as_ref().map(|content| content.to_vec());
            Ok(Output::new(g.dtype(x), g.dims(x)).with_content(content))
        })
    }
}
