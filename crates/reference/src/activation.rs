//! Scalar non-linearities.

use std::f32::consts::FRAC_2_PI;

use plansmith_families::Activation;
use rayon::prelude::*;

use crate::exp::{exp_minus_1_of_negative, exp_of_negative, normal_share, sigmoid, tanh};
use crate::vector::vectorised;
use crate::weights::Weights;

#[expect(clippy::approx_constant, reason = "the function is defined by six digits of 1/√2")]
const LAPLACE_MEAN: f64 = 0.707_107;

/// Elements of a task that needs no matrix.
pub(crate) const CHUNK: usize = 1 << 14;

/// `values = activation(values)`, times `factor` where there is one of as many elements. NaN stays NaN.
pub(crate) fn activate(weights: &Weights, activation: &Activation, values: &mut [f32], factor: Option<&[f32]>) {
    match activation {
        Activation::Identity => each(weights, values, factor, |x| x),
        Activation::Silu => each(weights, values, factor, |x| x * sigmoid(x)),
        Activation::Gelu => each(weights, values, factor, gelu),
        Activation::GeluTanh => each(weights, values, factor, gelu_tanh),
        Activation::QuickGelu => each(weights, values, factor, |x| x * sigmoid(1.702 * x)),
        Activation::ClippedGelu => each(weights, values, factor, |x| gelu(x).clamp(-10.0, 10.0)),
        Activation::Relu => each(weights, values, factor, relu),
        Activation::Relu2 => each(weights, values, factor, |x| relu(x) * relu(x)),
        Activation::Relu6 => each(weights, values, factor, |x| x.clamp(0.0, 6.0)),
        Activation::LeakyRelu => each(weights, values, factor, |x| if x < 0.0 { 0.01 * x } else { x }),
        Activation::Sigmoid => each(weights, values, factor, sigmoid),
        Activation::Tanh => each(weights, values, factor, tanh),
        Activation::Mish => each(weights, values, factor, mish),
        Activation::HardSwish => each(weights, values, factor, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
        Activation::Laplace => {
            each(weights, values, factor, |x| normal_share(((f64::from(x) - LAPLACE_MEAN) / 0.282_095) as f32));
        }
        Activation::SqrtSoftplus => each(weights, values, factor, |x| softplus(x).sqrt()),
        Activation::Xielu(stored) => {
            let scalar = |weight| weights.vector(weight)[0];
            let (beta, eps) = (scalar(&stored.beta), scalar(&stored.eps));
            let (positive, negative) = (softplus(scalar(&stored.alpha_p)), beta + softplus(scalar(&stored.alpha_n)));
            each(weights, values, factor, |x| {
                let bend = if x > 0.0 { positive * x * x } else { (exp_minus_1_of_negative(x.min(eps)) - x) * negative };
                bend + beta * x
            });
        }
    }
}

fn each(weights: &Weights, values: &mut [f32], factor: Option<&[f32]>, function: impl Fn(f32) -> f32 + Sync) {
    let keep = |values: &mut [f32]| weights.rounding.activations.iter().for_each(|significand| significand.round(values));
    values.par_chunks_mut(CHUNK).enumerate().for_each(|(index, values)| {
        vectorised(
            #[inline(always)]
            || {
                for value in &mut *values {
                    *value = function(*value);
                }
            },
        );
        keep(values);
        if let Some(factor) = factor {
            vectorised(
                #[inline(always)]
                || {
                    for (value, factor) in values.iter_mut().zip(&factor[index * CHUNK..]) {
                        *value *= factor;
                    }
                },
            );
            keep(values);
        }
    });
}

/// `cap · tanh(x / cap)` of every element.
pub(crate) fn softcap(x: &mut [f32], cap: f64) {
    let (cap, inverse) = (cap as f32, (1.0 / cap) as f32);
    vectorised(
        #[inline(always)]
        || {
            for x in x {
                *x = cap * tanh(*x * inverse);
            }
        },
    );
}

/// Unlike `f32::max`, keeps NaN.
#[inline(always)]
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

#[inline(always)]
fn gelu(x: f32) -> f32 {
    x * normal_share(x)
}

/// `(1 + tanh(u)) / 2` is the sigmoid of `2u`, without the cancellation on the left.
#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    let twice = 2.0 * FRAC_2_PI.sqrt();
    x * sigmoid(twice * (x + 0.044_715 * x * x * x))
}

/// `tanh(ln y)` is `(y² − 1) / (y² + 1)`; with `y = 1 + eˣ` nothing cancels.
#[inline(always)]
fn mish(x: f32) -> f32 {
    let small = exp_of_negative(-x.abs());
    let (numerator, rest) = if x < 0.0 { (small * small + 2.0 * small, 2.0) } else { (1.0 + 2.0 * small, 2.0 * small * small) };
    x * (numerator / (numerator + rest))
}

/// `ln(1 + eˣ)`.
fn softplus(x: f32) -> f32 {
    x.max(0.0) + libm::log1pf(exp_of_negative(-x.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{stored, weight};
    use plansmith_families::Xielu;

    const X: [f32; 8] = [-5.0, -1.5, -0.25, 0.0, 0.75, 2.0, 4.5, 12.0];

    fn of(weights: &Weights, activation: &Activation, factor: Option<&[f32]>) -> Vec<f32> {
        let mut values = X;
        activate(weights, activation, &mut values, factor);
        values.to_vec()
    }

    /// Wanted: `ACT2FN` of transformers 5.24 in fp64; `SqrtSoftplus` is torch's `sqrt(softplus(x))`.
    #[test]
    #[rustfmt::skip]
    fn equal_those_of_transformers() {
        let weights = stored(&[("w", &[1], &[1.0])]);
        for (activation, wanted) in [
            (Activation::Identity, X),
            (Activation::Silu, [-0.033_464_253, -0.273_638_28, -0.109_455_876, 0.0, 0.509_384_04, 1.761_594_2, 4.450_558_7, 11.999_927]),
            (Activation::Gelu, [-1.433_257_8e-6, -0.100_210_8, -0.100_323_42, 0.0, 0.580_029_5, 1.954_499_7, 4.499_984_7, 12.0]),
            (Activation::GeluTanh, [-2.291_796_2e-7, -0.100_428_425, -0.100_324_646, 0.0, 0.579_960_6, 1.954_597_7, 4.499_994_8, 12.0]),
            (Activation::QuickGelu, [-0.001_007_016_3, -0.108_337_805, -0.098_800_35, 0.0, 0.586_390_1, 1.935_658_6, 4.497_878, 12.0]),
            (Activation::ClippedGelu, [-1.433_257_8e-6, -0.100_210_8, -0.100_323_42, 0.0, 0.580_029_5, 1.954_499_7, 4.499_984_7, 10.0]),
            (Activation::Relu, [0.0, 0.0, 0.0, 0.0, 0.75, 2.0, 4.5, 12.0]),
            (Activation::Relu2, [0.0, 0.0, 0.0, 0.0, 0.5625, 4.0, 20.25, 144.0]),
            (Activation::Relu6, [0.0, 0.0, 0.0, 0.0, 0.75, 2.0, 4.5, 6.0]),
            (Activation::LeakyRelu, [-0.05, -0.015, -0.002_5, 0.0, 0.75, 2.0, 4.5, 12.0]),
            (Activation::Sigmoid, [0.006_692_851, 0.182_425_53, 0.437_823_5, 0.5, 0.679_178_7, 0.880_797_1, 0.989_013_1, 0.999_993_86]),
            (Activation::Tanh, [-0.999_909_2, -0.905_148_27, -0.244_918_66, 0.0, 0.635_148_94, 0.964_027_6, 0.999_753_24, 1.0]),
            (Activation::Mish, [-0.033_576_24, -0.298_099_76, -0.129_926_96, 0.0, 0.610_018_3, 1.943_959, 4.498_914, 12.0]),
            (Activation::HardSwish, [-0.0, -0.375, -0.114_583_336, 0.0, 0.468_75, 1.666_666_6, 4.5, 12.0]),
            (Activation::Laplace, [0.0, 2.553_513e-15, 0.000_345_843_15, 0.006_094_459_4, 0.560_426_9, 0.999_997_74, 1.0, 1.0]),
            (Activation::SqrtSoftplus, [0.081_947_23, 0.448_790_9, 0.758_906_7, 0.832_554_64, 1.066_241_5, 1.458_399_2, 2.123_922_8, 3.464_102_5]),
        ] {
            for (found, wanted) in of(&weights, &activation, None).into_iter().zip(wanted) {
                assert!((found - wanted).abs() <= 1e-6 * wanted.abs() + 1e-12, "{activation:?}: {found} {wanted}");
            }
        }
    }

    /// Wanted: `XIELUActivation._xielu_python` of transformers 5.24 in fp32.
    #[test]
    fn the_stored_scalars_of_xielu_are_used() {
        let scalars: [(&str, &[u64], &[f32]); 4] =
            [("p", &[1], &[0.3]), ("n", &[1], &[-0.7]), ("beta", &[], &[0.5]), ("eps", &[], &[-1e-6])];
        let weights = stored(&scalars);
        let [alpha_p, alpha_n, beta, eps] = scalars.map(|(name, shape, _)| weight(name, shape));
        let found = of(&weights, &Activation::Xielu(Xielu { alpha_p, alpha_n, beta, eps }), None);
        let wanted = [1.118_829_7, -0.096_878_886, -0.098_987_535, -9.031_856_5e-7, 0.855_574_85, 4.417_421_3, 19.550_694, 129.027_16f32];
        for (found, wanted) in found.into_iter().zip(wanted) {
            assert!((found - wanted).abs() <= 4e-7 * wanted.abs() + 1e-7, "{found} {wanted}");
        }
    }

    #[test]
    fn a_factor_multiplies_and_nan_stays() {
        let weights = stored(&[("w", &[1], &[1.0])]);
        assert_eq!(of(&weights, &Activation::Relu, Some(&[2.0; 8])), [0.0, 0.0, 0.0, 0.0, 1.5, 4.0, 9.0, 24.0]);
        for activation in [Activation::Relu, Activation::Relu2, Activation::Relu6, Activation::ClippedGelu, Activation::Mish] {
            let mut values = [f32::NAN];
            activate(&weights, &activation, &mut values, None);
            assert!(values[0].is_nan(), "{activation:?}");
        }
    }

    #[test]
    fn a_cap_is_never_passed() {
        let mut values = [-1e30, -1.0, 0.0, 3.0, 1e30];
        softcap(&mut values, 2.0);
        // 2 · tanh(−0.5) and 2 · tanh(1.5).
        for (found, wanted) in values.into_iter().zip([-2.0, -0.924_234_3, 0.0, 1.810_296_5, 2.0f32]) {
            assert!((found - wanted).abs() < 3e-7, "{values:?}");
        }
    }
}
