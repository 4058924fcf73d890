//! Positions where the two sides' largest logits are at different entries.

use serde::{Deserialize, Serialize};

use super::Place;

/// Flips that are kept: those of the largest margins.
const KEPT: usize = 20;

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flip {
    /// Prompt set.
    pub set: String,
    /// Row and column of the batch as it was fed.
    #[serde(flatten)]
    pub place: Place,
    /// The source's first logit minus its second, in deviations of its set: a small one is decided by rounding.
    pub margin: f64,
    /// The source's entry.
    pub source: usize,
    /// The candidate's entry.
    pub candidate: usize,
}

/// The flips with the largest margins, largest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Flips(Vec<Flip>);

impl Flips {
    pub(super) fn add(&mut self, flip: Flip) {
        let at = self.0.iter().position(|other| flip.margin > other.margin).unwrap_or(self.0.len());
        if at < KEPT {
            self.0.insert(at, flip);
            self.0.truncate(KEPT);
        }
    }

    /// Margins in units of `scale`.
    pub(super) fn finish(&self, scale: f64) -> Self {
        Self(self.0.iter().map(|flip| Flip { margin: flip.margin / scale, ..flip.clone() }).collect())
    }

    pub(super) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|flip| self.add(flip.clone()));
    }

    /// Says which set they are of.
    pub(crate) fn of_set(&mut self, set: &str) {
        self.0.iter_mut().filter(|flip| flip.set.is_empty()).for_each(|flip| set.clone_into(&mut flip.set));
    }

    pub(crate) fn list(&self) -> &[Flip] {
        &self.0
    }
}
