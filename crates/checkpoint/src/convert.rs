//! Casts between the float types that weights are stored in.

use plansmith_tensor::DType;

use crate::{Error, Scan};

/// What a cast saw.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Conversion {
    /// What the source holds.
    pub source: Scan,
    /// Finite elements that became infinite.
    pub overflow: Option<Overflow>,
}

/// Finite elements beyond the range of the target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overflow {
    /// Index of the first.
    pub index: u64,
    /// Its value.
    pub value: f64,
    /// How many there are.
    pub count: u64,
}

/// Casts little-endian F64, F32, F16 or BF16 to F32, F16 or BF16, rounding to nearest, ties to even, and appends to `out`.
///
/// # Errors
/// Another pair of dtypes, or bytes that are no whole number of elements. What is not finite is reported, not refused.
pub fn convert(_from: DType, _to: DType, _bytes: &[u8], _out: &mut Vec<u8>) -> Result<Conversion, Error> {
    todo!()
}
