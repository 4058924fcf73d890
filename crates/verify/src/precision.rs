//! What rounds between a source and a candidate.

use plansmith_tensor::DType;
use serde::{Deserialize, Serialize};

use crate::label::dtype_label;

/// The coarsest rounding between source and candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 24-bit significands: unit roundoff 6.0e-8.
    Fp32,
    /// 11-bit significands: unit roundoff 4.9e-4.
    Fp16,
    /// 8-bit significands: unit roundoff 3.9e-3.
    Bf16,
    /// One that no limits are known for: the user gives them.
    Unknown,
}

impl Precision {
    /// That of a float type.
    pub fn of_float(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F32 | DType::F64 => Some(Self::Fp32),
            DType::F16 => Some(Self::Fp16),
            DType::BF16 => Some(Self::Bf16),
            _ => None,
        }
    }

    /// What rounds between a source stored in `source` and a candidate: its `compute` dtype, and its `storage` dtype where that is not the
    /// source's own (a bf16 checkpoint computed in fp32 is held to fp32; one stored anew as fp16 is held to fp16).
    ///
    /// # Errors
    /// A dtype that no tolerance is known for, by name: quantised weights.
    pub fn between(source: DType, storage: DType, compute: DType) -> Result<Self, String> {
        let known = |role: &str, dtype: DType| {
            Self::of_float(dtype).ok_or_else(|| format!("no tolerance is known for {role} in {}: give limits", dtype_label(dtype)))
        };
        let compute = known("computing", compute)?;
        if storage == source { Ok(compute) } else { Ok(compute.max(known("storing", storage)?)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_precision_is_that_of_the_coarsest_rounding() {
        use DType::{BF16, F16, F32, I8};
        let cases = [
            ((F32, F32, F32), Precision::Fp32),
            ((BF16, BF16, F32), Precision::Fp32),
            ((BF16, F32, F32), Precision::Fp32),
            ((F32, F16, F32), Precision::Fp16),
            ((BF16, F16, F32), Precision::Fp16),
            ((F32, F16, F16), Precision::Fp16),
            ((F32, BF16, F16), Precision::Bf16),
            ((BF16, BF16, BF16), Precision::Bf16),
            ((F32, F32, F16), Precision::Fp16),
        ];
        for ((source, storage, compute), wanted) in cases {
            assert_eq!(Precision::between(source, storage, compute), Ok(wanted), "{source} {storage} {compute}");
        }
        assert_eq!(Precision::between(F32, I8, F32), Err("no tolerance is known for storing in int8: give limits".to_owned()));
    }
}
