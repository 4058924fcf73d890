//! Stored tensors, and the linear maps made of them.

/// A stored tensor that the spec uses, with the shape that the config implies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weight {
    /// Its name in the checkpoint.
    pub name: String,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// How the config implies the shape, for errors: `num_attention_heads 32 × head_dim 128, hidden_size 4096`.
    pub because: String,
}

/// How a linear map's matrix is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinearLayout {
    /// `[out, in]`: `y = x · weightᵀ + bias`.
    OutIn,
    /// `[in, out]`: `y = x · weight + bias`.
    InOut,
}

/// `y = x · weightᵀ + bias`, or without the transposition: see [`LinearLayout`].
#[derive(Debug, Clone, PartialEq)]
pub struct Linear {
    /// `[out, in]` or `[in, out]`.
    pub weight: Weight,
    /// Which of the two.
    pub layout: LinearLayout,
    /// `[out]`.
    pub bias: Option<Weight>,
}

impl Linear {
    /// The matrix and the bias.
    pub fn weights(&self) -> impl Iterator<Item = &Weight> {
        std::iter::once(&self.weight).chain(&self.bias)
    }

    /// Width of the result.
    pub fn out_features(&self) -> u64 {
        match self.layout {
            LinearLayout::OutIn => self.weight.shape[0],
            LinearLayout::InOut => self.weight.shape[1],
        }
    }

    /// Width of the argument.
    pub fn in_features(&self) -> u64 {
        match self.layout {
            LinearLayout::OutIn => self.weight.shape[1],
            LinearLayout::InOut => self.weight.shape[0],
        }
    }
}
