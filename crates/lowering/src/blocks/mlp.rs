//! Feed-forward part.

use plansmith_families::{Mlp, MlpInput};
use plansmith_graph::{Graph, Value};

use super::{activation, norm};
use crate::Error;
use crate::context::Context;

/// `down(inner_norm(inner))`, `[tokens, hidden_size]` both ways.
pub(crate) fn apply(g: &mut Graph, cx: &Context<'_>, mlp: &Mlp, x: Value) -> Result<Value, Error> {
    g.scope("mlp", |g| {
        let inner = match &mlp.input {
            MlpInput::Plain { up } => {
                let up = cx.linear(g, "up_proj", up, x)?;
                activation::apply(g, cx, &mlp.activation, up)?
            }
            MlpInput::Gated { gate, up } => {
                let gate = cx.linear(g, "gate_proj", gate, x)?;
                let up = cx.linear(g, "up_proj", up, x)?;
                gated(g, cx, mlp, gate, up)?
            }
            MlpInput::FusedGated { gate_up } => {
                let both = cx.linear(g, "gate_up_proj", gate_up, x)?;
                let width = mlp.intermediate_size();
                let halves = g.split(both, -1, &[width, width])?;
                gated(g, cx, mlp, halves[0], halves[1])?
            }
        };
        let inner = norm::optional(g, cx, "inner_norm", mlp.inner_norm.as_ref(), inner)?;
        cx.linear(g, "down_proj", &mlp.down, inner)
    })
}

fn gated(g: &mut Graph, cx: &Context<'_>, mlp: &Mlp, gate: Value, up: Value) -> Result<Value, Error> {
    let active = activation::apply(g, cx, &mlp.activation, gate)?;
    Ok(g.mul(active, up)?)
}
