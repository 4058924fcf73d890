//! Casts between the float types that weights are stored in.

use half::slice::HalfFloatSliceExt as _;
use half::{bf16, f16};
use plansmith_tensor::DType;

use crate::scan::{BLOCK, Blocks, wide_elements};
use crate::{Error, Scan, scan};

/// What a cast saw.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Conversion {
    /// What the source holds; of integers and packed formats, which are only copied, nothing is known.
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

impl Conversion {
    /// Whether source and result are finite throughout.
    pub fn is_finite(&self) -> bool {
        self.source.is_finite() && self.overflow.is_none()
    }

    /// Adds what `later` saw, whose element 0 is our element `first`; in order.
    pub(crate) fn append(&mut self, first: u64, later: &Self) {
        self.source.append(first, &later.source);
        if let Some(Overflow { index, value, count }) = later.overflow {
            self.add_overflow(Overflow { index: first + index, value, count });
        }
    }

    fn add_overflow(&mut self, later: Overflow) {
        match &mut self.overflow {
            Some(overflow) => overflow.count += later.count,
            None => self.overflow = Some(later),
        }
    }
}

/// Whether [`convert`] does this: any dtype to itself, and F64, F32, F16 or BF16 to F32, F16 or BF16.
pub(crate) fn is_supported(from: DType, to: DType) -> bool {
    from == to || ((from == DType::F64 || from.is_compute_float()) && to.is_compute_float())
}

/// Casts little-endian elements of `from` to `to`, rounding to nearest, ties to even, and appends them to `out`.
///
/// From F64, F32, F16 or BF16 to F32, F16 or BF16, and any dtype to itself. What is not finite is reported, not refused.
///
/// # Errors
/// Another pair of dtypes, or bytes that are no whole number of elements.
pub fn convert(from: DType, to: DType, bytes: &[u8], out: &mut Vec<u8>) -> Result<Conversion, Error> {
    if from == to {
        out.extend_from_slice(bytes);
        return Ok(Conversion { source: scan(from, bytes).unwrap_or_default(), overflow: None });
    }
    let width = from.bytes().filter(|_| is_supported(from, to)).ok_or(Error::Conversion { tensor: None, from, to })?;
    if !bytes.len().is_multiple_of(width) {
        return Err(Error::PartialElement { bytes: bytes.len(), dtype: from });
    }
    out.reserve(bytes.len() / width * to.bytes().unwrap_or(width));

    let mut seen = Conversion::default();
    match Blocks::new(from, bytes) {
        Some(blocks) => blocks.for_each(|first, block| seen.append(first, &cast_block(to, block, out))),
        None => wide_elements(bytes).for_each(|(index, value)| {
            seen.source.add(index, value);
            if value.is_finite() && !cast_wide(to, value, out) {
                seen.add_overflow(Overflow { index, value, count: 1 });
            } else if !value.is_finite() {
                cast_block(to, &[value as f32], out);
            }
        }),
    }
    Ok(seen)
}

/// Casts at most [`BLOCK`] elements.
fn cast_block(to: DType, block: &[f32], out: &mut Vec<u8>) -> Conversion {
    let mut seen = Conversion::default();
    seen.source.add_block(0, block);
    match to {
        DType::F16 => {
            let mut cast = [f16::ZERO; BLOCK];
            let cast = &mut cast[..block.len()];
            cast.convert_from_f32_slice(block);
            out.extend(cast.iter().flat_map(|value| value.to_le_bytes()));
        }
        DType::BF16 => {
            let mut cast = [bf16::ZERO; BLOCK];
            let cast = &mut cast[..block.len()];
            cast.convert_from_f32_slice(block);
            out.extend(cast.iter().flat_map(|value| value.to_le_bytes()));
        }
        _ => out.extend(block.iter().flat_map(|value| value.to_le_bytes())),
    }
    if !seen.source.fits(to) {
        for (index, value) in (0..).zip(block.iter().map(|value| f64::from(*value))) {
            if value.is_finite() && !(Scan { max_abs: value.abs(), ..Scan::default() }).fits(to) {
                seen.add_overflow(Overflow { index, value, count: 1 });
            }
        }
    }
    seen
}

/// Casts one finite double; false where the result is infinite.
fn cast_wide(to: DType, value: f64, out: &mut Vec<u8>) -> bool {
    match to {
        DType::F16 => {
            let cast = f16::from_f32(to_odd(value));
            out.extend_from_slice(&cast.to_le_bytes());
            cast.is_finite()
        }
        DType::BF16 => {
            let cast = bf16::from_f32(to_odd(value));
            out.extend_from_slice(&cast.to_le_bytes());
            cast.is_finite()
        }
        _ => {
            let cast = value as f32;
            out.extend_from_slice(&cast.to_le_bytes());
            cast.is_finite()
        }
    }
}

/// Rounds a finite double to odd: toward zero, with the last bit set where anything was lost. A second rounding to half the width
/// then gives what one rounding of the double would; two roundings to nearest would not.
///
/// Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008.
fn to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    if back == value {
        return nearest;
    }
    let toward_zero = if back.abs() > value.abs() { nearest.to_bits() - 1 } else { nearest.to_bits() };
    f32::from_bits(toward_zero | 1)
}
