//! The exponential of softmax and of the sigmoid, in a form that the compiler turns into vector instructions.
//!
//! A call into libm for each element costs more than all matrix products of a prefill.

use std::f32::consts::LOG2_E;

/// Below this the result would be subnormal, which is slow on most processors and lost in any sum with 1: it is 0.
const SMALLEST: f32 = -87.0;
/// ln 2 in two parts: the first has few bits, so that its product with a small integer is exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// 1.5 · 2²³: adding it leaves the nearest integer in the low bits of the mantissa.
const ROUND: f32 = 12_582_912.0;

/// `e^x` for `x ≤ 0`, within 2 units in the last place; NaN for NaN.
///
/// `x = n·ln 2 + r` with `|r| ≤ ln 2 / 2`; `e^r` by its Taylor polynomial of degree 7, whose remainder is below 6e-9.
pub(crate) fn exp_of_negative(x: f32) -> f32 {
    let shifted = x * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    let polynomial = r * (1.0 / 5040.0) + 1.0 / 720.0;
    let polynomial = polynomial * r + 1.0 / 120.0;
    let polynomial = polynomial * r + 1.0 / 24.0;
    let polynomial = polynomial * r + 1.0 / 6.0;
    let polynomial = polynomial * r + 0.5;
    let polynomial = polynomial * r * r + r + 1.0;
    let two_to_n = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    if x < SMALLEST { 0.0 } else { polynomial * two_to_n }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_exponential_in_fp64() {
        let mut worst = 0.0f64;
        for step in 0..=870_000 {
            let x = -(step as f32) * 1e-4;
            let wanted = f64::from(x).exp();
            worst = worst.max((f64::from(exp_of_negative(x)) / wanted - 1.0).abs());
        }
        assert!(worst < 2.0 * f64::from(f32::EPSILON), "{worst:e}");
    }

    #[test]
    fn ends_and_nan() {
        assert_eq!(exp_of_negative(0.0), 1.0);
        assert_eq!(exp_of_negative(-87.1), 0.0);
        assert_eq!(exp_of_negative(f32::NEG_INFINITY), 0.0);
        assert!(exp_of_negative(f32::NAN).is_nan());
    }
}
