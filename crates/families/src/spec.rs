//! What a decoder computes, as numbers and tensor names: no family, no graph, no tensors.
//!
//! With `x` of `[tokens, hidden_size]`, each layer is `x += attention(input_norm(x))`, then `x += mlp(post_attention_norm(x))`.

/// A decoder-only language model.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderSpec {
    /// Entries of the vocabulary; rows of the embedding.
    pub vocab_size: u64,
    /// Width of the residual stream.
    pub hidden_size: u64,
    /// Positions that the model was made for (`max_position_embeddings`).
    pub max_positions: u64,
    /// Token embedding.
    pub embedding: Embedding,
    /// The rotations that layers refer to by index.
    pub ropes: Vec<Rope>,
    /// The layers, first to last.
    pub layers: Vec<Layer>,
    /// Norm before the head.
    pub final_norm: Norm,
    /// From the residual stream to logits.
    pub head: Head,
}

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

/// Rows of a table, one a token.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// `[vocab_size, hidden_size]`.
    pub weight: Weight,
}

/// `y = x · weightᵀ + bias`.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Weight,
    /// `[out]`.
    pub bias: Option<Weight>,
}

/// Root-mean-square norm over the last axis: `x / sqrt(mean(x²) + eps) · weight`.
///
/// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", equation 4.
#[derive(Debug, Clone, PartialEq)]
pub struct Norm {
    /// `[width]`.
    pub weight: Weight,
    /// Added to the mean square.
    pub eps: f64,
}

/// One layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Before attention.
    pub input_norm: Norm,
    /// Self-attention.
    pub attention: Attention,
    /// Before the feed-forward part.
    pub post_attention_norm: Norm,
    /// Feed-forward part.
    pub mlp: Mlp,
}

/// Grouped-query attention: `heads / kv_heads` query heads share one key and value head.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: u64,
    /// Key and value heads; divides `heads`.
    pub kv_heads: u64,
    /// Width of one head.
    pub head_dim: u64,
    /// Factor on the scores before softmax.
    pub scale: f64,
    /// With `Some(w)`, a query at column `i` sees the columns `i − w + 1 ..= i` only.
    pub window: Option<u64>,
    /// Index into [`DecoderSpec::ropes`].
    pub rope: usize,
    /// `[heads × head_dim, hidden_size]`.
    pub query: Linear,
    /// `[kv_heads × head_dim, hidden_size]`.
    pub key: Linear,
    /// `[kv_heads × head_dim, hidden_size]`.
    pub value: Linear,
    /// `[hidden_size, heads × head_dim]`.
    pub output: Linear,
    /// Norm over each query head and each key head, before rotation.
    pub head_norms: Option<HeadNorms>,
}

/// Norms over `head_dim`, shared by all heads.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadNorms {
    /// Of query heads, `[head_dim]`.
    pub query: Norm,
    /// Of key heads, `[head_dim]`.
    pub key: Norm,
}

/// Gated feed-forward part: `down(activation(gate(x)) · up(x))`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mlp {
    /// Applied to the gate.
    pub activation: Activation,
    /// `[intermediate_size, hidden_size]`.
    pub gate: Linear,
    /// `[intermediate_size, hidden_size]`.
    pub up: Linear,
    /// `[hidden_size, intermediate_size]`.
    pub down: Linear,
}

/// A scalar non-linearity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
}

/// Rotary position embedding over all of `head_dim`; the pair `i` is `(x[i], x[i + head_dim / 2])`.
///
/// Pair `i` at position `p` is turned by the angle `p · inverse_frequencies[i]`, both taken in fp32 as transformers does.
/// Source: Su et al., "RoFormer", equation 34, with the pairing of `rotate_half`.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Radians a position, `[head_dim / 2]`.
    pub inverse_frequencies: Vec<f32>,
    /// Factor on cosine and sine (YaRN's attention factor; 1 elsewhere).
    pub amplitude: f64,
}

/// From the residual stream to logits.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// `[vocab_size, hidden_size]`; names the embedding's tensor where the two are tied.
    pub linear: Linear,
}

impl DecoderSpec {
    /// Whether head and embedding are one tensor.
    pub fn is_tied(&self) -> bool {
        self.head.linear.weight.name == self.embedding.weight.name
    }

    /// Every weight, in the order of use; a tied one twice.
    pub fn weights(&self) -> Vec<&Weight> {
        let mut all = vec![&self.embedding.weight];
        for layer in &self.layers {
            all.push(&layer.input_norm.weight);
            let attention = &layer.attention;
            for linear in [&attention.query, &attention.key, &attention.value] {
                all.extend(linear.weights());
            }
            if let Some(norms) = &attention.head_norms {
                all.extend([&norms.query.weight, &norms.key.weight]);
            }
            all.extend(attention.output.weights());
            all.push(&layer.post_attention_norm.weight);
            for linear in [&layer.mlp.gate, &layer.mlp.up, &layer.mlp.down] {
                all.extend(linear.weights());
            }
        }
        all.push(&self.final_norm.weight);
        all.extend(self.head.linear.weights());
        all
    }
}

impl Linear {
    fn weights(&self) -> impl Iterator<Item = &Weight> {
        std::iter::once(&self.weight).chain(&self.bias)
    }

    /// Rows of the weight.
    pub fn out_features(&self) -> u64 {
        self.weight.shape[0]
    }
}
