//! Feed-forward part.

use super::{Linear, Norm, Weight};

/// Feed-forward part: `down(inner_norm(inner))`, with `inner` as [`MlpInput`] says.
#[derive(Debug, Clone, PartialEq)]
pub struct Mlp {
    /// Non-linearity.
    pub activation: Activation,
    /// To `intermediate_size`.
    pub input: MlpInput,
    /// Norm before `down`.
    pub inner_norm: Option<Norm>,
    /// From `intermediate_size` to `hidden_size`.
    pub down: Linear,
}

/// The way in.
#[derive(Debug, Clone, PartialEq)]
pub enum MlpInput {
    /// `activation(up(x))`.
    Plain {
        /// To `intermediate_size`.
        up: Linear,
    },
    /// `activation(gate(x)) · up(x)`.
    Gated {
        /// To `intermediate_size`.
        gate: Linear,
        /// To `intermediate_size`.
        up: Linear,
    },
    /// As `Gated`; one matrix gives the gate, then `up`.
    FusedGated {
        /// To `2 × intermediate_size`.
        gate_up: Linear,
    },
}

/// A scalar non-linearity.
#[expect(clippy::large_enum_variant, reason = "one a layer, and never moved about")]
#[derive(Debug, Clone, PartialEq)]
pub enum Activation {
    /// `x`.
    Identity,
    /// `x · sigmoid(x)`.
    Silu,
    /// `x · Φ(x)`, by the error function.
    Gelu,
    /// `x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))`.
    GeluTanh,
    /// `x · sigmoid(1.702 · x)`.
    QuickGelu,
    /// [`Activation::Gelu`], clamped to `−10 ..= 10`.
    ClippedGelu,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)²`.
    Relu2,
    /// `min(max(x, 0), 6)`.
    Relu6,
    /// `x` above 0, `0.01 · x` below.
    LeakyRelu,
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid,
    /// `tanh(x)`.
    Tanh,
    /// `x · tanh(ln(1 + eˣ))`.
    Mish,
    /// `x · min(max(x + 3, 0), 6) / 6`.
    HardSwish,
    /// `(1 + erf((x − 0.707107) / (0.282095 · √2))) / 2`.
    Laplace,
    /// `√(ln(1 + eˣ))`.
    SqrtSoftplus,
    /// See [`Xielu`].
    Xielu(Xielu),
}

/// With `p = ln(1 + e^alpha_p)` and `n = beta + ln(1 + e^alpha_n)`: above 0 `p · x² + beta · x`, else
/// `(e^min(x, eps) − 1 − x) · n + beta · x`.
///
/// Source: "Deriving Activation Functions Using Integration", arXiv 2411.13010.
#[derive(Debug, Clone, PartialEq)]
pub struct Xielu {
    /// `[1]`.
    pub alpha_p: Weight,
    /// `[1]`.
    pub alpha_n: Weight,
    /// Slope at 0; a stored scalar (shape `[]`).
    pub beta: Weight,
    /// Just below 0; a stored scalar (shape `[]`).
    pub eps: Weight,
}

impl Mlp {
    pub(super) fn weights(&self) -> Vec<&Weight> {
        let mut all = Vec::new();
        match &self.input {
            MlpInput::Plain { up } => all.extend(up.weights()),
            MlpInput::Gated { gate, up } => all.extend(gate.weights().chain(up.weights())),
            MlpInput::FusedGated { gate_up } => all.extend(gate_up.weights()),
        }
        if let Activation::Xielu(xielu) = &self.activation {
            all.extend([&xielu.alpha_p, &xielu.alpha_n, &xielu.beta, &xielu.eps]);
        }
        all.extend(self.inner_norm.iter().flat_map(Norm::weights));
        all.extend(self.down.weights());
        all
    }

    /// Width of what `down` reads.
    pub fn intermediate_size(&self) -> u64 {
        self.down.in_features()
    }
}
