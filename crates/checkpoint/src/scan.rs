//! What a run of stored floats holds: NaN, infinity, range.

use plansmith_tensor::DType;

/// What was seen in a run of floats.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Scan {
    /// Index of the first NaN.
    pub nan: Option<u64>,
    /// Index of the first infinity.
    pub infinite: Option<u64>,
    /// Largest magnitude among the finite elements; 0 where there is none.
    pub max_abs: f64,
}

/// Scans stored little-endian floats of dtype F64, F32, F16 or BF16; `None` for any other dtype. Indices count from 0.
pub fn scan(_dtype: DType, _bytes: &[u8]) -> Option<Scan> {
    todo!()
}
