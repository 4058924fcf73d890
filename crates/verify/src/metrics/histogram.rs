//! How divergences are spread over magnitudes.

use serde::{Deserialize, Serialize};

const LOWEST: i32 = -16;
const HIGHEST: i32 = 2;

/// Positions by KL(source‖candidate), a bin a decade; the same bins in every run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KlHistogram {
    /// `1e-16, 1e-15 … 1e2` nats.
    pub edges: Vec<f64>,
    /// `edges.len() + 1` of them: below the first edge, between neighbours (the lower one included), from the last edge on.
    pub counts: Vec<usize>,
}

impl Default for KlHistogram {
    fn default() -> Self {
        let edges: Vec<f64> = (LOWEST..=HIGHEST).map(|exponent| 10f64.powi(exponent)).collect();
        Self { counts: vec![0; edges.len() + 1], edges }
    }
}

impl KlHistogram {
    pub(super) fn of(divergences: &[f64]) -> Self {
        let mut histogram = Self::default();
        for kl in divergences {
            let bin = histogram.edges.partition_point(|edge| edge <= kl);
            histogram.counts[bin] += 1;
        }
        histogram
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
    }
}
