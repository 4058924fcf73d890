//! Rules that several operators share.

use plansmith_tensor::DType;

use crate::error::Rule;
use crate::{Dim, Graph};

/// `axis` counted from the end where negative.
pub(crate) fn axis_of(axis: i64, rank: usize) -> Rule<usize> {
    let counted = if axis < 0 { axis + rank as i64 } else { axis };
    match usize::try_from(counted) {
        Ok(index) if index < rank => Ok(index),
        _ => Err(format!("axis {axis} is outside of a tensor of rank {rank}")),
    }
}

/// The product of `dims`.
pub(crate) fn elements(dims: &[Dim]) -> Dim {
    dims.iter().fold(Dim::from(1), |product, dim| product * dim)
}

pub(crate) fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
}

pub(crate) fn is_integer(dtype: DType) -> bool {
    use DType::{I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(dtype, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
}

/// Refuses a dtype that `accepts` does not take; `wanted` says what it takes.
pub(crate) fn expect_dtype(dtype: DType, wanted: &str, accepts: impl Fn(DType) -> bool) -> Rule<()> {
    if accepts(dtype) { Ok(()) } else { Err(format!("dtype is {dtype}, must be {wanted}")) }
}

/// Refuses two different dtypes: nothing is converted in silence.
pub(crate) fn expect_same(a: DType, b: DType) -> Rule<()> {
    if a == b { Ok(()) } else { Err(format!("dtypes are {a} and {b}, must be equal")) }
}

/// Refuses another rank.
pub(crate) fn expect_rank(what: &str, dims: &[Dim], rank: usize) -> Rule<()> {
    if dims.len() == rank { Ok(()) } else { Err(format!("{what} has rank {}, must have rank {rank}", dims.len())) }
}

impl Graph {
    /// The shape that numpy's rules broadcast `a` and `b` to. Different symbols never match, nor does a symbol match a number but 1.
    pub(crate) fn broadcast(&self, a: &[Dim], b: &[Dim]) -> Rule<Vec<Dim>> {
        let rank = a.len().max(b.len());
        let one = Dim::from(1);
        let mut result = Vec::with_capacity(rank);
        for index in 0..rank {
            let at = |dims: &[Dim]| (index + dims.len()).checked_sub(rank).and_then(|index| dims.get(index)).cloned();
            let dim = match (at(a), at(b)) {
                (Some(left), Some(right)) if left == right || right == one => left,
                (Some(left), Some(right)) if left == one => right,
                (Some(left), Some(right)) => {
                    let (left, right) = (self.dim_text(&left), self.dim_text(&right));
                    return Err(format!("axis -{} is {left} on one side and {right} on the other", rank - index));
                }
                (Some(dim), None) | (None, Some(dim)) => dim,
                (None, None) => continue,
            };
            result.push(dim);
        }
        Ok(result)
    }

    /// Refuses two different dimensions; `left` and `right` say what they are.
    pub(crate) fn expect_dim(&self, left: &str, a: &Dim, right: &str, b: &Dim) -> Rule<()> {
        if a == b { Ok(()) } else { Err(format!("{left} is {}, {right} is {}", self.dim_text(a), self.dim_text(b))) }
    }
}
