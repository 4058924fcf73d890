//! What storing in fewer bits does to a computation: the noise that a candidate of that dtype may have.
//!
//! Only stored numbers are rounded. Within an operation everything stays in fp32 or wider, as our graphs and most hardware do it: sums of
//! products, softmax and the means of norms.

use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use crate::activation::CHUNK;

/// The numbers that a dtype can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Significand {
    /// IEEE 754 binary16: 11 bits; subnormal below 2⁻¹⁴, infinite from 65,520 on.
    Fp16,
    /// bfloat16: 8 bits over the exponents of fp32.
    Bf16,
    /// So many bits, the leading one counted, over the exponents of fp32: a finer or coarser fp32. 24 and more change nothing.
    Bits(u32),
}

/// What a run of the reference rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rounding {
    /// The weights as they are read; `None`: as stored.
    pub weights: Option<Significand>,
    /// What every operation gives; `None`: fp32.
    pub activations: Option<Significand>,
    /// Whether attention scores are such a result. They are where attention is written as MatMul, Softmax, MatMul; a fused attention keeps them
    /// inside.
    pub scores: bool,
}

impl Significand {
    /// Rounds to nearest, ties to even.
    pub fn round(self, values: &mut [f32]) {
        match self {
            Self::Fp16 => {
                let mut narrow = [f16::ZERO; 64];
                for values in values.chunks_mut(narrow.len()) {
                    let narrow = &mut narrow[..values.len()];
                    narrow.convert_from_f32_slice(values);
                    narrow.convert_to_f32_slice(values);
                }
            }
            Self::Bf16 => drop_bits(values, 16),
            Self::Bits(bits) => drop_bits(values, 24_u32.saturating_sub(bits).min(23)),
        }
    }

    pub(crate) fn round_in_parallel(self, values: &mut [f32]) {
        values.par_chunks_mut(CHUNK).for_each(|chunk| self.round(chunk));
    }
}

/// Rounds the lowest `count` bits away. Beyond the largest number lies infinity, whose bits follow it; NaN is left as it is.
fn drop_bits(values: &mut [f32], count: u32) {
    if count == 0 {
        return;
    }
    let below_half = (1 << (count - 1)) - 1;
    for value in values {
        let bits = value.to_bits();
        let even = (bits >> count) & 1;
        let rounded = f32::from_bits(bits.wrapping_add(below_half + even) >> count << count);
        *value = if value.is_nan() { *value } else { rounded };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(significand: Significand, values: &[f32]) -> Vec<f32> {
        let mut values = values.to_vec();
        significand.round(&mut values);
        values
    }

    /// Wanted: `torch.tensor(x).to(torch.float16).float()` and the same with bfloat16, torch 2.
    #[test]
    fn equal_those_of_torch() {
        for (value, fp16, bf16) in [
            (1.0, 1.0, 1.0),
            (-1.000_488_3, -1.0, -1.0),
            (1.000_488_4, 1.000_976_6, 1.0),
            (1.001_464_8, 1.001_953_1, 1.0),
            (1.003_906_3, 1.003_906_3, 1.0),
            (1.011_718_8, 1.011_718_8, 1.015_625),
            (65_519.996, 65_504.0, 65_536.0),
            (65_520.0, f32::INFINITY, 65_536.0),
            (-1e9, f32::NEG_INFINITY, -998_244_352.0),
            (6.1e-5, 6.097_555e-5, 6.103_515_6e-5),
            (2.980_232_2e-8, 0.0, 2.980_232_2e-8),
            (2.980_233e-8, 5.960_464_5e-8, 2.980_232_2e-8),
            (3.39e38, f32::INFINITY, 3.389_531_4e38),
            (3.4e38, f32::INFINITY, f32::INFINITY),
            (1e-40, 0.0, 9.183_55e-41),
            (f32::INFINITY, f32::INFINITY, f32::INFINITY),
        ] {
            assert_eq!(rounded(Significand::Fp16, &[value]), [fp16], "{value}");
            assert_eq!(rounded(Significand::Bf16, &[value]), [bf16], "{value}");
        }
        for significand in [Significand::Fp16, Significand::Bf16, Significand::Bits(16)] {
            assert!(rounded(significand, &[f32::NAN, f32::from_bits(0x7fff_ffff)]).iter().all(|value| value.is_nan()));
        }
    }

    /// Wanted: `ldexp(rint(ldexp(m, p)), e - p)` of numpy with `m, e = frexp(x)`.
    #[test]
    fn any_number_of_bits_is_kept() {
        let values = [3.3, -2.6, 1.000_015_3, 1.000_045_8, 1e-30];
        for (bits, wanted) in [
            (24, values),
            (99, values),
            (16, [3.2999878, -2.5999756, 1.0, 1.000061, 9.99991e-31]),
            (8, [3.296875, -2.59375, 1.0, 1.0, 9.984021e-31]),
            (1, [4.0, -2.0, 1.0, 1.0, 7.888609e-31]),
        ] {
            assert_eq!(rounded(Significand::Bits(bits), &values), wanted, "{bits}");
        }
    }
}
