//! The exponential and what is made of it, in a form that the compiler turns into vector instructions.
//!
//! A call into libm for each element costs more than all matrix products of a prefill.

use std::f32::consts::LOG2_E;

/// Below this the exponential would be subnormal, which is slow on most processors and lost in any sum with 1: it is 0.
const SMALLEST: f32 = -87.0;
/// ln 2 in two parts: the first has few bits, so that its product with a small integer is exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// 1.5 · 2²³: adding it leaves the nearest integer in the low bits of the mantissa.
const ROUND: f32 = 12_582_912.0;

/// `e^x` for `x ≤ 0`, within 2 units in the last place; NaN for NaN.
pub(crate) fn exp_of_negative(x: f32) -> f32 {
    let (rest, two_to_n) = parts(x);
    if x < SMALLEST { 0.0 } else { (rest + 1.0) * two_to_n }
}

/// `e^x − 1` for `x ≤ 0`, within 3 units in the last place, down to the smallest `x`; NaN for NaN.
pub(crate) fn exp_minus_1_of_negative(x: f32) -> f32 {
    let (rest, two_to_n) = parts(if x < SMALLEST { SMALLEST } else { x });
    rest * two_to_n + (two_to_n - 1.0)
}

/// `e^r − 1` and `2ⁿ`, with `x = n·ln 2 + r` and `|r| ≤ ln 2 / 2`.
///
/// `e^r` by its Taylor polynomial of degree 7, whose remainder is below 6e-9.
fn parts(x: f32) -> (f32, f32) {
    let shifted = x * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    let polynomial = r * (1.0 / 5040.0) + 1.0 / 720.0;
    let polynomial = polynomial * r + 1.0 / 120.0;
    let polynomial = polynomial * r + 1.0 / 24.0;
    let polynomial = polynomial * r + 1.0 / 6.0;
    let polynomial = polynomial * r + 0.5;
    (polynomial * r * r + r, f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23)))
}

/// `1 / (1 + e⁻ˣ)`.
pub(crate) fn sigmoid(x: f32) -> f32 {
    let small = exp_of_negative(-x.abs());
    (if x < 0.0 { small } else { 1.0 }) / (1.0 + small)
}

/// The hyperbolic tangent.
pub(crate) fn tanh(x: f32) -> f32 {
    let less = exp_minus_1_of_negative(-2.0 * x.abs());
    (-less / (2.0 + less)).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest relative difference to `wanted` over `x` in steps of 1e-4 from `−end` to 0, and from there down to 1e-30.
    fn worst(end: u32, found: fn(f32) -> f32, wanted: fn(f64) -> f64) -> f64 {
        let steps = (0..=end * 10_000).map(|step| -(step as f32) * 1e-4);
        let small = (4..30).map(|power| -10.0f32.powi(-power));
        let differences = steps.chain(small).map(|x| {
            let wanted = wanted(f64::from(x));
            if wanted == 0.0 { f64::from(found(x)).abs() } else { (f64::from(found(x)) / wanted - 1.0).abs() }
        });
        differences.fold(0.0, f64::max)
    }

    #[test]
    fn equal_the_functions_in_fp64() {
        const ULP: f64 = f32::EPSILON as f64;
        let found = worst(87, exp_of_negative, f64::exp);
        assert!(found < 2.0 * ULP, "{found:e}");
        let found = worst(87, exp_minus_1_of_negative, f64::exp_m1);
        assert!(found < 3.0 * ULP, "{found:e}");
        let found = worst(20, tanh, f64::tanh);
        assert!(found < 4.0 * ULP, "{found:e}");
        let found = worst(87, sigmoid, |x| 1.0 / (1.0 + (-x).exp()));
        assert!(found < 4.0 * ULP, "{found:e}");
    }

    #[test]
    fn ends_and_nan() {
        assert_eq!(exp_of_negative(0.0), 1.0);
        assert_eq!(exp_of_negative(-87.1), 0.0);
        assert_eq!(exp_of_negative(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp_minus_1_of_negative(f32::NEG_INFINITY), -1.0);
        assert_eq!((tanh(f32::INFINITY), tanh(f32::NEG_INFINITY), tanh(0.0)), (1.0, -1.0, 0.0));
        for of_nan in [exp_of_negative, exp_minus_1_of_negative, sigmoid, tanh].map(|function| function(f32::NAN)) {
            assert!(of_nan.is_nan());
        }
    }
}
