//! Rotary position embedding.

/// Which elements of a head form pair `i` of `n` pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// `(x[i], x[i + n])`: transformers' `rotate_half`.
    Halves,
    /// `(x[2i], x[2i + 1])`.
    Interleaved,
}

/// Radians a position, one entry a pair.
#[derive(Debug, Clone, PartialEq)]
pub enum Frequencies {
    /// The same for every length.
    Fixed(Vec<f32>),
    /// `short` while the largest position of the step, plus 1, is at most `length`; `long` for all positions of the step beyond.
    Switched {
        /// Up to `length`.
        short: Vec<f32>,
        /// Beyond it; as many as in `short`.
        long: Vec<f32>,
        /// Total length at which they change (`original_max_position_embeddings`).
        length: u64,
    },
}

/// Rotary position embedding of the first `2 · pairs` elements of a head; the rest passes unchanged.
///
/// Pair `i` at position `p` is turned by the angle `p · frequencies[i]`, both taken in fp32 as transformers does; a negative frequency
/// turns the other way. Source: Su et al., "RoFormer", equation 34.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Radians a position.
    pub frequencies: Frequencies,
    /// Factor on cosine and sine (YaRN's attention factor; 1 elsewhere).
    pub amplitude: f64,
    /// Which elements form a pair.
    pub pairing: Pairing,
}

impl Rope {
    /// Number of pairs that are turned.
    pub fn pairs(&self) -> usize {
        match &self.frequencies {
            Frequencies::Fixed(frequencies) | Frequencies::Switched { short: frequencies, .. } => frequencies.len(),
        }
    }
}
