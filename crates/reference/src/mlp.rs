//! The feed-forward part of one layer.

use plansmith_families::{Activation, Mlp, MlpInput};

use crate::activation::activate;
use crate::linear::linear;
use crate::norm::norm_in_place;
use crate::range::raise;
use crate::weights::Weights;

/// The feed-forward part of one layer over `x`, `[tokens, hidden_size]`.
pub(crate) fn feed_forward(weights: &Weights, mlp: &Mlp, x: &[f32], peak: &mut f32) -> Vec<f32> {
    let mut inner = match &mlp.input {
        MlpInput::Plain { up } => {
            let mut up = linear(weights, up, x);
            raise(peak, &up);
            activate(weights, &mlp.activation, &mut up, None);
            up
        }
        MlpInput::Gated { gate, up } => {
            let (gate, up) = rayon::join(|| linear(weights, gate, x), || linear(weights, up, x));
            gated(weights, &mlp.activation, gate, &up, peak)
        }
        MlpInput::FusedGated { gate_up } => {
            let (gate, up) = halves(&linear(weights, gate_up, x), mlp.intermediate_size() as usize);
            gated(weights, &mlp.activation, gate, &up, peak)
        }
    };
    raise(peak, &inner);
    if let Some(norm) = &mlp.inner_norm {
        norm_in_place(weights, norm, &mut inner);
        raise(peak, &inner);
    }
    let output = linear(weights, &mlp.down, &inner);
    raise(peak, &output);
    output
}

/// `activation(gate) · up`.
fn gated(weights: &Weights, activation: &Activation, mut gate: Vec<f32>, up: &[f32], peak: &mut f32) -> Vec<f32> {
    raise(peak, &gate);
    raise(peak, up);
    if matches!(activation, Activation::Relu2 | Activation::Xielu(_)) {
        // These grow faster than their argument: the product may be small again.
        let mut alone = gate.clone();
        activate(weights, activation, &mut alone, None);
        raise(peak, &alone);
    }
    activate(weights, activation, &mut gate, Some(up));
    gate
}

/// The left and the right of every row of `x`, `[tokens, 2 · width]`.
fn halves(x: &[f32], width: usize) -> (Vec<f32>, Vec<f32>) {
    let (mut left, mut right) = (Vec::with_capacity(x.len() / 2), Vec::with_capacity(x.len() / 2));
    for row in x.chunks_exact(2 * width) {
        left.extend_from_slice(&row[..width]);
        right.extend_from_slice(&row[width..]);
    }
    (left, right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, linear, stored};
    use plansmith_families::{Gain, Norm, NormKind};

    /// Two tokens; wanted by hand: gate (x₀, −x₁), up (x₀ + x₁, 2·x₁), and `down` gives both.
    #[test]
    fn the_gate_comes_first_in_a_fused_matrix() {
        let weights = stored(&[
            ("gate", &[2, 2], &[1.0, 0.0, 0.0, -1.0]),
            ("up", &[2, 2], &[1.0, 1.0, 0.0, 2.0]),
            ("gate_up", &[4, 2], &[1.0, 0.0, 0.0, -1.0, 1.0, 1.0, 0.0, 2.0]),
            ("down", &[2, 2], &[1.0, 0.0, 0.0, 1.0]),
        ]);
        let separate = MlpInput::Gated { gate: linear("gate", 2, 2), up: linear("up", 2, 2) };
        let fused = MlpInput::FusedGated { gate_up: linear("gate_up", 4, 2) };
        for input in [separate, fused] {
            let mut peak = 0.0;
            let mlp = Mlp { activation: Activation::Relu2, input, inner_norm: None, down: linear("down", 2, 2) };
            let found = feed_forward(&weights, &mlp, &[3.0, -2.0, 10.0, -10.0], &mut peak);
            assert_eq!(found, [9.0, -16.0, 0.0, -2000.0]);
            assert_eq!(peak, 2000.0);
        }
        let mut peak = 0.0;
        let silent = Mlp {
            activation: Activation::Relu2,
            input: MlpInput::Gated { gate: linear("down", 2, 2), up: linear("up", 2, 2) },
            inner_norm: None,
            down: linear("down", 2, 2),
        };
        assert_eq!(feed_forward(&weights, &silent, &[300.0, -300.0], &mut peak), [0.0, 0.0]);
        assert_eq!(peak, 90_000.0, "300² is no fp16 number, though the product is 0");
    }

    #[test]
    fn a_norm_before_down() {
        let weights = stored(&[("up", &[2, 1], &[3.0, -4.0]), ("down", &[1, 2], &[10.0, 1.0])]);
        let norm = Norm { kind: NormKind::Rms, width: 2, gain: Gain::One, bias: None, eps: 0.0 };
        let input = MlpInput::Plain { up: linear("up", 2, 1) };
        let mlp = Mlp { activation: Activation::Identity, input, inner_norm: Some(norm), down: linear("down", 1, 2) };
        // (3, −4) / √12.5, then 10·3 − 4 = 26 of it.
        assert_close(&feed_forward(&weights, &mlp, &[1.0], &mut 0.0), &[26.0 / 12.5f32.sqrt()]);
    }
}
