//! Element types, by their safetensors names.

use std::fmt;
use std::str::FromStr;

/// An element type of a stored tensor. The names are those of the safetensors format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the variants are the safetensors names")]
pub enum DType {
    Bool,
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    BF16,
    F32,
    F64,
    F8E4M3,
    F8E5M2,
    F8E8M0,
    F6E2M3,
    F6E3M2,
    F4,
    C64,
}

/// A dtype name that no table knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown dtype `{0}`")]
pub struct UnknownDType(pub String);

const NAMES: [(DType, &str, usize); 20] = [
    (DType::Bool, "BOOL", 8),
    (DType::U8, "U8", 8),
    (DType::I8, "I8", 8),
    (DType::U16, "U16", 16),
    (DType::I16, "I16", 16),
    (DType::U32, "U32", 32),
    (DType::I32, "I32", 32),
    (DType::U64, "U64", 64),
    (DType::I64, "I64", 64),
    (DType::F16, "F16", 16),
    (DType::BF16, "BF16", 16),
    (DType::F32, "F32", 32),
    (DType::F64, "F64", 64),
    (DType::F8E4M3, "F8_E4M3", 8),
    (DType::F8E5M2, "F8_E5M2", 8),
    (DType::F8E8M0, "F8_E8M0", 8),
    (DType::F6E2M3, "F6_E2M3", 6),
    (DType::F6E3M2, "F6_E3M2", 6),
    (DType::F4, "F4", 4),
    (DType::C64, "C64", 64),
];

impl DType {
    /// The safetensors name, `BF16` for example.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// Bits of one element; below eight for packed formats.
    pub fn bits(self) -> usize {
        NAMES[self as usize].2
    }

    /// Bytes of one element of a whole-byte type; `None` for packed formats.
    pub fn bytes(self) -> Option<usize> {
        self.bits().is_multiple_of(8).then(|| self.bits() / 8)
    }

    /// Bytes of a tensor of `shape`, or `None` where the product overflows or is not a whole number of bytes.
    pub fn tensor_bytes(self, shape: &[u64]) -> Option<u64> {
        let elements = shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))?;
        let bits = elements.checked_mul(self.bits() as u64)?;
        bits.is_multiple_of(8).then_some(bits / 8)
    }

    /// Whether this is one of the float types that weights are computed in: `F32`, `F16`, `BF16`.
    pub fn is_compute_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::BF16)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = UnknownDType;

    fn from_str(name: &str) -> Result<Self, UnknownDType> {
        NAMES.iter().find(|entry| entry.1 == name).map(|entry| entry.0).ok_or_else(|| UnknownDType(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_variants() {
        for (index, (dtype, name, _)) in NAMES.iter().enumerate() {
            assert_eq!(*dtype as usize, index, "{name}");
            assert_eq!(name.parse(), Ok(*dtype));
        }
    }

    #[test]
    fn sizes_refuse_overflow_and_half_bytes() {
        assert_eq!(DType::F32.tensor_bytes(&[2, 3]), Some(24));
        assert_eq!(DType::F32.tensor_bytes(&[]), Some(4));
        assert_eq!(DType::F4.tensor_bytes(&[3]), None);
        assert_eq!(DType::F16.tensor_bytes(&[u64::MAX, 2]), None);
    }
}
