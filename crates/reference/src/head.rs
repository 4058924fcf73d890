//! From the residual stream to logits.

use plansmith_families::Head;
use rayon::prelude::*;

use crate::activation::{CHUNK, activate, softcap};
use crate::linear::{linear, scale};
use crate::norm::norm_in_place;
use crate::weights::Weights;

/// `[tokens, vocab_size]` of `x`, `[tokens, hidden_size]`, which holds at least one token.
pub(crate) fn logits(weights: &Weights, head: &Head, mut x: Vec<f32>) -> Vec<f32> {
    if let Some(transform) = &head.transform {
        x = linear(weights, &transform.linear, &x);
        activate(weights, &transform.activation, &mut x, None);
        if let Some(norm) = &transform.norm {
            norm_in_place(weights, norm, &mut x);
        }
    }
    let mut logits = linear(weights, &head.linear, &x);
    scale(&mut logits, head.scale);
    if let Some(cap) = head.softcap {
        logits.par_chunks_mut(CHUNK).for_each(|logits| softcap(logits, cap));
    }
    logits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, linear as matrix, stored};
    use plansmith_families::{Activation, Gain, HeadTransform, Norm, NormKind};

    #[test]
    fn transform_scale_and_cap() {
        let weights = stored(&[("transform", &[2, 2], &[1.0, 0.0, 0.0, -1.0]), ("head", &[3, 2], &[1.0, 0.0, 0.0, 4.0, -1.0, 1.0])]);
        let norm = Norm { kind: NormKind::Layer, width: 2, gain: Gain::One, bias: None, eps: 0.0 };
        let transform = HeadTransform { linear: matrix("transform", 2, 2), activation: Activation::Relu, norm: Some(norm) };
        let head = Head { transform: Some(transform), linear: matrix("head", 3, 2), scale: 0.5, softcap: Some(2.0) };
        // (3, −5) → (3, 5) → (−1, 1) → (−1, 4, 2) → (−0.5, 2, 1) → 2 · tanh of (−0.25, 1, 0.5).
        assert_close(&logits(&weights, &head, vec![3.0, -5.0]), &[-0.489_837_3, 1.523_188_4, 0.924_234_3]);
    }
}
