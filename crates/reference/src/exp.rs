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

/// The share of a normal distribution beyond x ≥ 0, over exp(−x²/2), as a polynomial of 1 / (1 + 0.3·x), the highest power first:
/// fitted up to 14 for the smallest relative error, which is 6e-8. Its terms cancel, so that it is summed in fp64.
const TAIL: [f64; 9] = [
    0.038_378_403_11,
    -0.169_166_634,
    0.228_661_093_8,
    -0.076_507_553_96,
    0.142_536_207_4,
    0.094_683_259_28,
    0.121_920_402_4,
    0.119_487_681_5,
    7.169_252_208e-6,
];

/// `e^x` for `x ≤ 0`, within 2 units in the last place; NaN for NaN.
#[inline(always)]
pub(crate) fn exp_of_negative(x: f32) -> f32 {
    let (rest, two_to_n) = parts(x);
    if x < SMALLEST { 0.0 } else { (rest + 1.0) * two_to_n }
}

/// `e^x − 1` for `x ≤ 0`, within 3 units in the last place, down to the smallest `x`; NaN for NaN.
#[inline(always)]
pub(crate) fn exp_minus_1_of_negative(x: f32) -> f32 {
    let (rest, two_to_n) = parts(if x < SMALLEST { SMALLEST } else { x });
    rest * two_to_n + (two_to_n - 1.0)
}

/// `e^r − 1` and `2ⁿ`, with `x = n·ln 2 + r` and `|r| ≤ ln 2 / 2`.
///
/// `e^r` by its Taylor polynomial of degree 7, whose remainder is below 6e-9.
#[inline(always)]
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
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    let small = exp_of_negative(-x.abs());
    (if x < 0.0 { small } else { 1.0 }) / (1.0 + small)
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let less = exp_minus_1_of_negative(-2.0 * x.abs());
    (-less / (2.0 + less)).copysign(x)
}

/// The share of a standard normal distribution that lies below `x`, `(1 + erf(x / √2)) / 2`: within 4 units in the last place on both sides.
#[inline(always)]
pub(crate) fn normal_share(x: f32) -> f32 {
    let far = if x.abs() > 14.0 { 14.0 } else { x.abs() };
    let t = 1.0 / (1.0 + 0.3 * far);
    let mills = TAIL.iter().fold(0.0, |sum, coefficient| sum * f64::from(t) + coefficient) as f32;
    // The square rounded to fp32 would lose digits that its exponential shows: that of the leading 12 bits is exact.
    let leading = f32::from_bits(far.to_bits() & 0xffff_f000);
    let rest = -0.5 * (far - leading) * (far + leading);
    let tail = exp_of_negative(-0.5 * leading * leading) * (1.0 + rest * (1.0 + rest * (0.5 + rest * (1.0 / 6.0)))) * mills;
    let share = if x < 0.0 { tail } else { 1.0 - tail };
    if x.is_nan() { x } else { share }
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
        let share = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
        let found = worst(13, normal_share, share);
        assert!(found < 4.0 * ULP, "{found:e}");
        let found = worst(13, |x| normal_share(-x), |x| 0.5 * libm::erfc(x / std::f64::consts::SQRT_2));
        assert!(found < 3.0 * ULP, "{found:e}");
    }

    #[test]
    fn ends_and_nan() {
        assert_eq!(exp_of_negative(0.0), 1.0);
        assert_eq!(exp_of_negative(-87.1), 0.0);
        assert_eq!(exp_of_negative(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp_minus_1_of_negative(f32::NEG_INFINITY), -1.0);
        assert_eq!((tanh(f32::INFINITY), tanh(f32::NEG_INFINITY), tanh(0.0)), (1.0, -1.0, 0.0));
        assert_eq!((normal_share(f32::INFINITY), normal_share(f32::NEG_INFINITY), normal_share(0.0)), (1.0, 0.0, 0.5));
        for of_nan in [exp_of_negative, exp_minus_1_of_negative, sigmoid, tanh, normal_share].map(|function| function(f32::NAN)) {
            assert!(of_nan.is_nan());
        }
    }
}
