//! Tokens to the residual stream, and back to logits.

use super::{Activation, Linear, Norm, Weight};

/// `norm(project(scale · weight[id] + positions))`.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// `[vocab_size, width]`; the width is `hidden_size` unless `project` maps it there.
    pub weight: Weight,
    /// Factor on the token's row.
    pub scale: f64,
    /// From the table's width to `hidden_size`; positions are added after it.
    pub project: Option<Linear>,
    /// Added by position.
    pub positions: Option<Positions>,
    /// Norm of the sum.
    pub norm: Option<Norm>,
}

/// Absolute position embedding, added to the token's row.
#[derive(Debug, Clone, PartialEq)]
pub enum Positions {
    /// Row `position + offset` of a table `[rows, hidden_size]`.
    Learned {
        /// The table.
        weight: Weight,
        /// Added to the position.
        offset: u64,
    },
    /// With `a[i] = (position + offset) · frequencies[i]` in fp32: `[sin(a), cos(a)]`, sines first.
    Sinusoidal {
        /// Radians a position, `[hidden_size / 2]`.
        frequencies: Vec<f32>,
        /// Added to the position.
        offset: u64,
    },
}

/// `softcap(scale · linear(transform(x)))`.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// Before the head's matrix.
    pub transform: Option<HeadTransform>,
    /// To `vocab_size`; names the embedding's tensor where the two are tied.
    pub linear: Linear,
    /// Factor on the logits.
    pub scale: f64,
    /// With `Some(c)`, logits become `c · tanh(logit / c)`.
    pub softcap: Option<f64>,
}

/// `norm(activation(linear(x)))`.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadTransform {
    /// First.
    pub linear: Linear,
    /// Then.
    pub activation: Activation,
    /// Last.
    pub norm: Option<Norm>,
}

impl Embedding {
    pub(super) fn weights(&self) -> Vec<&Weight> {
        let mut all = vec![&self.weight];
        all.extend(self.project.iter().flat_map(Linear::weights));
        if let Some(Positions::Learned { weight, .. }) = &self.positions {
            all.push(weight);
        }
        all.extend(self.norm.iter().flat_map(Norm::weights));
        all
    }
}

impl Head {
    pub(super) fn weights(&self) -> Vec<&Weight> {
        let mut all = Vec::new();
        if let Some(transform) = &self.transform {
            all.extend(transform.linear.weights());
            all.extend(transform.norm.iter().flat_map(Norm::weights));
        }
        all.extend(self.linear.weights());
        all
    }
}
