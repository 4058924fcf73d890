//! Arguments of operators: values, or constants written where they are used.

use half::{bf16, f16};
use plansmith_tensor::DType;

use crate::error::Rule;
use crate::{Dim, Value};

/// What an operator takes: a [`Value`], a number, a list of whole numbers, or a dimension that the run decides.
///
/// A number takes the dtype of the operand beside it; whole numbers where the operator wants indices are int64.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A tensor of the graph.
    Value(Value),
    /// A scalar.
    Float(f64),
    /// A scalar; also stands for its float where the other operand is one.
    Int(i64),
    /// An int64 vector.
    Ints(Vec<i64>),
    /// An int64 scalar that is computed from the shapes of the inputs.
    Dim(Dim),
}

impl From<Value> for Operand {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl From<f64> for Operand {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<f32> for Operand {
    fn from(number: f32) -> Self {
        Self::Float(f64::from(number))
    }
}

impl From<i64> for Operand {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Self {
        Self::Int(i64::from(number))
    }
}

impl From<&[i64]> for Operand {
    fn from(numbers: &[i64]) -> Self {
        Self::Ints(numbers.to_vec())
    }
}

impl<const N: usize> From<[i64; N]> for Operand {
    fn from(numbers: [i64; N]) -> Self {
        Self::Ints(numbers.to_vec())
    }
}

impl From<&Dim> for Operand {
    fn from(dim: &Dim) -> Self {
        Self::Dim(dim.clone())
    }
}

impl From<Dim> for Operand {
    fn from(dim: Dim) -> Self {
        Self::Dim(dim)
    }
}

/// The most negative finite number of a float dtype: what a mask adds where attention must not look. `None` for other dtypes.
pub fn lowest(dtype: DType) -> Option<f64> {
    match dtype {
        DType::F16 => Some(f16::MIN.to_f64()),
        DType::BF16 => Some(bf16::MIN.to_f64()),
        DType::F32 => Some(f64::from(f32::MIN)),
        DType::F64 => Some(f64::MIN),
        _ => None,
    }
}

/// Little-endian bytes of `number` in `dtype`, rounded to nearest, and its text.
///
/// NaN, and a finite number that becomes infinite, are refused: no graph of ours means them.
pub(crate) fn float_bytes(dtype: DType, number: f64) -> Rule<(Vec<u8>, String)> {
    let (bytes, rounded) = match dtype {
        DType::F16 => (f16::from_f64(number).to_le_bytes().to_vec(), f16::from_f64(number).to_f64()),
        DType::BF16 => (bf16::from_f64(number).to_le_bytes().to_vec(), bf16::from_f64(number).to_f64()),
        DType::F32 => ((number as f32).to_le_bytes().to_vec(), f64::from(number as f32)),
        DType::F64 => (number.to_le_bytes().to_vec(), number),
        _ => return Err(format!("{number:?} is no constant of dtype {dtype}")),
    };
    if rounded.is_nan() || rounded.is_infinite() != number.is_infinite() {
        return Err(format!("{number:?} cannot be expressed in {dtype}"));
    }
    let text = if dtype == DType::F64 { format!("{rounded:?}") } else { format!("{:?}", rounded as f32) };
    Ok((bytes, text))
}

/// Little-endian bytes of `number` in the integer `dtype`, and its text.
pub(crate) fn int_bytes(dtype: DType, number: i64) -> Rule<(Vec<u8>, String)> {
    let outside = |_| format!("{number} is outside of {dtype}");
    let bytes = match dtype {
        DType::U8 => u8::try_from(number).map_err(outside)?.to_le_bytes().to_vec(),
        DType::I8 => i8::try_from(number).map_err(outside)?.to_le_bytes().to_vec(),
        DType::U16 => u16::try_from(number).map_err(outside)?.to_le_bytes().to_vec(),
        DType::I16 => i16::try_from(number).map_err(outside)?.to_le_bytes().to_vec(),
        DType::U32 => u32::try_from(number).map_err(outside)?.to_le_bytes().to_vec(),
        DType::I32 => i32::try_from(number).map_err(outside)?.to_le_bytes().to_vec(),
        DType::U64 => u64::try_from(number).map_err(outside)?.to_le_bytes().to_vec(),
        DType::I64 => number.to_le_bytes().to_vec(),
        _ => return float_bytes(dtype, number as f64),
    };
    Ok((bytes, number.to_string()))
}
