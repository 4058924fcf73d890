//! What a run of stored floats holds: NaN, infinity, range.

use half::slice::HalfFloatSliceExt as _;
use half::{bf16, f16};
use plansmith_tensor::DType;
use serde::{Deserialize, Serialize};

/// What was seen in a run of floats. Indices count elements from 0, row-major.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Scan {
    /// Index of the first NaN.
    pub nan: Option<u64>,
    /// Index of the first infinity.
    pub infinite: Option<u64>,
    /// Largest magnitude among the finite elements; 0 where there is none.
    #[serde(with = "bits")]
    pub max_abs: f64,
}

/// Scans stored little-endian floats of dtype F64, F32, F16 or BF16; `None` for any other dtype.
pub fn scan(dtype: DType, bytes: &[u8]) -> Option<Scan> {
    let mut scan = Scan::default();
    if dtype == DType::F64 {
        wide_elements(bytes).for_each(|(index, value)| scan.add(index, value));
        return Some(scan);
    }
    let blocks = Blocks::new(dtype, bytes)?;
    blocks.for_each(|first, block| scan.add_block(first, block));
    Some(scan)
}

impl Scan {
    /// Whether there is neither NaN nor infinity.
    pub fn is_finite(&self) -> bool {
        self.nan.is_none() && self.infinite.is_none()
    }

    /// Whether every finite element stays finite when it is cast to `dtype`, one of F64, F32, F16 and BF16.
    pub fn fits(&self, dtype: DType) -> bool {
        let limit = match dtype {
            // Halfway between the largest finite value and the next power of two: from here on, rounding gives infinity.
            DType::F16 => 65520.0,
            DType::BF16 => f64::from(f32::from_bits(0x7f7f_8000)),
            DType::F32 => f64::from(f32::MAX) + 2f64.powi(103),
            _ => f64::INFINITY,
        };
        self.max_abs < limit
    }

    /// Adds what `later` saw, whose element 0 is our element `first`; in order.
    pub(crate) fn append(&mut self, first: u64, later: &Self) {
        self.nan = self.nan.or(later.nan.map(|index| first + index));
        self.infinite = self.infinite.or(later.infinite.map(|index| first + index));
        self.max_abs = self.max_abs.max(later.max_abs);
    }

    pub(crate) fn add(&mut self, index: u64, value: f64) {
        if value.is_nan() {
            self.nan.get_or_insert(index);
        } else if value.is_infinite() {
            self.infinite.get_or_insert(index);
        } else {
            self.max_abs = self.max_abs.max(value.abs());
        }
    }

    /// Adds a block whose first element has index `first`; true if all of it is finite.
    pub(crate) fn add_block(&mut self, first: u64, block: &[f32]) {
        // Magnitudes order as their bits do, NaN above infinity above the finite: one integer maximum decides the common case.
        let top = block.iter().fold(0, |top: i32, value| top.max((value.to_bits() & 0x7fff_ffff) as i32));
        let top = f32::from_bits(top as u32);
        if top.is_finite() {
            self.max_abs = self.max_abs.max(f64::from(top));
        } else {
            (first..).zip(block).for_each(|(index, value)| self.add(index, f64::from(*value)));
        }
    }
}

/// The elements of a run of F64, with their indices.
pub(crate) fn wide_elements(bytes: &[u8]) -> impl Iterator<Item = (u64, f64)> {
    (0..).zip(bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)))
}

/// Elements handed over at once: source, fp32 and result of a block stay in the first-level cache.
pub(crate) const BLOCK: usize = 2048;

/// A run of F32, F16 or BF16, widened to fp32 (which is exact) block by block.
pub(crate) struct Blocks<'a> {
    dtype: DType,
    width: usize,
    bytes: &'a [u8],
}

impl<'a> Blocks<'a> {
    /// `None` for any other dtype.
    pub(crate) fn new(dtype: DType, bytes: &'a [u8]) -> Option<Self> {
        let width = dtype.bytes().filter(|_| dtype.is_compute_float())?;
        Some(Self { dtype, width, bytes })
    }

    /// Calls `visit` with the index of a block's first element and the block.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(u64, &[f32])) {
        let mut wide = [0f32; BLOCK];
        let mut narrow = [f16::ZERO; BLOCK];
        let mut brain = [bf16::ZERO; BLOCK];
        let mut first = 0;
        for block in self.bytes.chunks(BLOCK * self.width) {
            let count = block.len() / self.width;
            let wide = &mut wide[..count];
            match self.dtype {
                DType::F32 => {
                    for (value, bytes) in wide.iter_mut().zip(block.as_chunks::<4>().0) {
                        *value = f32::from_le_bytes(*bytes);
                    }
                }
                DType::BF16 => {
                    for (value, bytes) in brain.iter_mut().zip(block.as_chunks::<2>().0) {
                        *value = bf16::from_le_bytes(*bytes);
                    }
                    brain[..count].convert_to_f32_slice(wide);
                }
                _ => {
                    for (value, bytes) in narrow.iter_mut().zip(block.as_chunks::<2>().0) {
                        *value = f16::from_le_bytes(*bytes);
                    }
                    narrow[..count].convert_to_f32_slice(wide);
                }
            }
            visit(first, wide);
            first += count as u64;
        }
    }
}

/// A float kept by its bits, so that what is read back is what was written.
mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(value.to_bits())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        u64::deserialize(deserializer).map(f64::from_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn the_first_of_each_kind_is_found_beyond_the_first_block() {
        let mut values = vec![0.5; 3 * BLOCK];
        values[7] = -3.0;
        values[BLOCK + 5] = f32::NEG_INFINITY;
        values[2 * BLOCK + 1] = f32::NAN;
        values[2 * BLOCK + 2] = f32::NAN;
        let expected = Scan { nan: Some(2 * BLOCK as u64 + 1), infinite: Some(BLOCK as u64 + 5), max_abs: 3.0 };
        assert_eq!(scan(DType::F32, &bytes_of(&values)), Some(expected));

        let wide: Vec<u8> = values.iter().flat_map(|value| f64::from(*value).to_le_bytes()).collect();
        assert_eq!(scan(DType::F64, &wide), Some(expected));
    }

    #[test]
    fn pieces_add_up() {
        let values = [1.0, f32::NAN, -7.0, 2.0, f32::NAN, f32::INFINITY];
        let bytes = bytes_of(&values);
        let mut sum = Scan::default();
        for (piece, part) in bytes.chunks(8).enumerate() {
            sum.append(2 * piece as u64, &scan(DType::F32, part).unwrap());
        }
        assert_eq!(Some(sum), scan(DType::F32, &bytes));
        assert_eq!(sum, Scan { nan: Some(1), infinite: Some(5), max_abs: 7.0 });
    }

    #[test]
    fn integers_are_not_scanned() {
        assert_eq!(scan(DType::I64, &[0; 8]), None);
        assert_eq!(scan(DType::F8E4M3, &[0x7f]), None);
    }

    #[test]
    fn the_limits_are_where_rounding_reaches_infinity() {
        let fits = |max_abs, dtype| Scan { max_abs, ..Scan::default() }.fits(dtype);
        assert!(fits(65519.996, DType::F16) && !fits(65520.0, DType::F16));
        assert!(fits(f64::from(f32::MAX), DType::F32) && !fits(f64::from(f32::MAX), DType::BF16));
        assert!(!fits(3.5e38, DType::F32) && fits(3.5e38, DType::F64));
    }

    #[test]
    fn a_scan_survives_the_cache_bit_for_bit() {
        let scan = Scan { nan: None, infinite: Some(3), max_abs: 0.1f64 + 0.2 };
        let text = serde_json::to_string(&scan).unwrap();
        assert_eq!(serde_json::from_str::<Scan>(&text).unwrap(), scan);
    }
}
