//! Non-linearities.

use plansmith_families::{Activation, Xielu};
use plansmith_graph::{Graph, Value};
use plansmith_tensor::DType;

use crate::Error;
use crate::context::Context;

#[expect(clippy::approx_constant, reason = "the function is defined by six digits of 1/√2")]
const LAPLACE_MEAN: f64 = 0.707_107;

/// `activation(x)`, any shape.
pub(crate) fn apply(g: &mut Graph, cx: &Context<'_>, activation: &Activation, x: Value) -> Result<Value, Error> {
    g.scope("act_fn", |g| {
        Ok(match activation {
            Activation::Identity => x,
            Activation::Silu => swish(g, x, 1.0)?,
            Activation::QuickGelu => swish(g, x, 1.702)?,
            Activation::Gelu => g.gelu(x, false)?,
            Activation::GeluTanh => g.gelu(x, true)?,
            Activation::ClippedGelu => {
                let gelu = g.gelu(x, false)?;
                g.clip(gelu, Some(-10.0), Some(10.0))?
            }
            Activation::Relu => g.relu(x)?,
            Activation::Relu2 => {
                let positive = g.relu(x)?;
                g.mul(positive, positive)?
            }
            Activation::Relu6 => g.clip(x, Some(0.0), Some(6.0))?,
            Activation::LeakyRelu => {
                let leak = g.mul(x, 0.01)?;
                g.max(x, leak)?
            }
            Activation::Sigmoid => g.sigmoid(x)?,
            Activation::Tanh => g.tanh(x)?,
            Activation::Mish => {
                let soft = g.softplus(x)?;
                let gate = g.tanh(soft)?;
                g.mul(x, gate)?
            }
            Activation::HardSwish => {
                let shifted = g.add(x, 3.0)?;
                let gate = g.clip(shifted, Some(0.0), Some(6.0))?;
                let product = g.mul(x, gate)?;
                g.div(product, 6.0)?
            }
            Activation::Laplace => {
                let shifted = g.sub(x, LAPLACE_MEAN)?;
                let scaled = g.div(shifted, 0.282_095 * std::f64::consts::SQRT_2)?;
                let erf = g.erf(scaled)?;
                let sum = g.add(erf, 1.0)?;
                g.mul(sum, 0.5)?
            }
            Activation::SqrtSoftplus => {
                let soft = g.softplus(x)?;
                g.sqrt(soft)?
            }
            Activation::Xielu(xielu) => self::xielu(g, cx, xielu, x)?,
        })
    })
}

/// `x · sigmoid(slope · x)`.
fn swish(g: &mut Graph, x: Value, slope: f64) -> Result<Value, Error> {
    let steep = if slope == 1.0 { x } else { g.mul(x, slope)? };
    let gate = g.sigmoid(steep)?;
    Ok(g.mul(x, gate)?)
}

/// In fp32: just below zero its terms cancel.
fn xielu(g: &mut Graph, cx: &Context<'_>, xielu: &Xielu, x: Value) -> Result<Value, Error> {
    let mut scalar = |weight| -> Result<Value, Error> {
        let stored = cx.stored(g, weight)?;
        Ok(g.cast(stored, DType::F32)?)
    };
    let (alpha_p, alpha_n, beta, eps) = (scalar(&xielu.alpha_p)?, scalar(&xielu.alpha_n)?, scalar(&xielu.beta)?, scalar(&xielu.eps)?);
    let positive = g.softplus(alpha_p)?;
    let soft = g.softplus(alpha_n)?;
    let negative = g.add(beta, soft)?;
    let wide = g.cast(x, DType::F32)?;
    let square = g.mul(wide, wide)?;
    let above = g.mul(square, positive)?;
    let least = g.min(wide, eps)?;
    let power = g.exp(least)?;
    let less_one = g.sub(power, 1.0)?;
    let bend = g.sub(less_one, wide)?;
    let below = g.mul(bend, negative)?;
    let is_above = g.greater(wide, 0.0)?;
    let curved = g.select(is_above, above, below)?;
    let straight = g.mul(wide, beta)?;
    let sum = g.add(curved, straight)?;
    Ok(g.cast(sum, cx.compute)?)
}
