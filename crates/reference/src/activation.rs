//! Scalar non-linearities.

use std::f32::consts::{FRAC_2_PI, SQRT_2};

use plansmith_families::Activation;
use rayon::prelude::*;

use crate::exp::{exp_minus_1_of_negative, exp_of_negative, sigmoid, tanh};
use crate::weights::Weights;

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
        Activation::Laplace => each(weights, values, factor, |x| normal_share((x - 0.707_107) / (0.282_095 * SQRT_2))),
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
        for value in &mut *values {
            *value = function(*value);
        }
        keep(values);
        if let Some(factor) = factor {
            for (value, factor) in values.iter_mut().zip(&factor[index * CHUNK..]) {
                *value *= factor;
            }
            keep(values);
        }
    });
}

/// `cap · tanh(x / cap)` of every element.
pub(crate) fn softcap(x: &mut [f32], cap: f64) {
    let (cap, inverse) = (cap as f32, (1.0 / cap) as f32);
    for x in x {
        *x = cap * tanh(*x * inverse);
    }
}

/// Unlike `f32::max`, keeps NaN.
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

fn gelu(x: f32) -> f32 {
    x * normal_share(x / SQRT_2)
}

/// `(1 + erf(x)) / 2`, without the cancellation on the left.
fn normal_share(x: f32) -> f32 {
    0.5 * libm::erfcf(-x)
}

/// `(1 + tanh(u)) / 2` is the sigmoid of `2u`, without the cancellation on the left.
fn gelu_tanh(x: f32) -> f32 {
    let twice = 2.0 * FRAC_2_PI.sqrt();
    x * sigmoid(twice * (x + 0.044_715 * x * x * x))
}

/// `tanh(ln y)` is `(y² − 1) / (y² + 1)`; with `y = 1 + eˣ` nothing cancels.
fn mish(x: f32) -> f32 {
    let small = exp_of_negative(-x.abs());
    let (numerator, rest) = if x < 0.0 { (small * small + 2.0 * small, 2.0) } else { (1.0 + 2.0 * small, 2.0 * small * small) };
    x * (numerator / (numerator + rest))
}

/// `ln(1 + eˣ)`.
fn softplus(x: f32) -> f32 {
    let x = f64::from(x);
    (x.max(0.0) + (-x.abs()).exp().ln_1p()) as f32
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
            (Activation::Silu, [-0.0334642529, -0.273638278, -0.109455876, 0.0, 0.509384036, 1.76159418, 4.45055866, 11.9999266]),
            (Activation::Gelu, [-1.43325781e-06, -0.100210801, -0.100323416, 0.0, 0.580029488, 1.95449972, 4.49998474, 12.0]),
            (Activation::GeluTanh, [-2.29179619e-07, -0.100428425, -0.100324646, 0.0, 0.579960585, 1.95459771, 4.49999475, 12.0]),
            (Activation::QuickGelu, [-0.00100701628, -0.108337805, -0.0988003537, 0.0, 0.586390078, 1.93565857, 4.49787807, 12.0]),
            (Activation::ClippedGelu, [-1.43325781e-06, -0.100210801, -0.100323416, 0.0, 0.580029488, 1.95449972, 4.49998474, 10.0]),
            (Activation::Relu, [0.0, 0.0, 0.0, 0.0, 0.75, 2.0, 4.5, 12.0]),
            (Activation::Relu2, [0.0, 0.0, 0.0, 0.0, 0.5625, 4.0, 20.25, 144.0]),
            (Activation::Relu6, [0.0, 0.0, 0.0, 0.0, 0.75, 2.0, 4.5, 6.0]),
            (Activation::LeakyRelu, [-0.0500000007, -0.0149999997, -0.00249999994, 0.0, 0.75, 2.0, 4.5, 12.0]),
            (Activation::Sigmoid, [0.00669285096, 0.182425529, 0.437823504, 0.5, 0.679178715, 0.880797088, 0.989013076, 0.999993861]),
            (Activation::Tanh, [-0.999909222, -0.905148268, -0.244918659, 0.0, 0.635148942, 0.964027584, 0.999753237, 1.0]),
            (Activation::Mish, [-0.0335762389, -0.298099756, -0.129926965, 0.0, 0.610018313, 1.943959, 4.49891376, 12.0]),
            (Activation::HardSwish, [-0.0, -0.375, -0.114583336, 0.0, 0.46875, 1.66666663, 4.5, 12.0]),
            (Activation::Laplace, [0.0, 2.55351296e-15, 0.000345843146, 0.00609445944, 0.560426891, 0.999997735, 1.0, 1.0]),
            (Activation::SqrtSoftplus, [0.0819472298, 0.448790908, 0.758906722, 0.832554638, 1.0662415, 1.45839918, 2.12392282, 3.46410251]),
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
        let wanted = [1.11882973, -0.0968788862, -0.0989875346, -9.03185651e-07, 0.855574846, 4.41742134, 19.5506935, 129.027161f32];
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
