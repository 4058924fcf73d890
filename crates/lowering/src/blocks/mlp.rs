//! Gated feed-forward part.

use plansmith_families::{Activation, Mlp};
use plansmith_graph::{Graph, Value};

use crate::Error;
use crate::context::Context;

/// `down(activation(gate(x)) · up(x))`, `[tokens, hidden_size]` both ways.
pub(crate) fn apply(g: &mut Graph, cx: &Context<'_>, mlp: &Mlp, x: Value) -> Result<Value, Error> {
    g.scope("mlp", |g| {
        let gate = cx.linear(g, "gate_proj", &mlp.gate, x)?;
        let up = cx.linear(g, "up_proj", &mlp.up, x)?;
        let active = g.scope("act_fn", |g| activate(g, mlp.activation, gate))?;
        let product = g.mul(active, up)?;
        cx.linear(g, "down_proj", &mlp.down, product)
    })
}

fn activate(g: &mut Graph, activation: Activation, x: Value) -> Result<Value, Error> {
    match activation {
        Activation::Silu => {
            let gate = g.sigmoid(x)?;
            Ok(g.mul(x, gate)?)
        }
    }
}
