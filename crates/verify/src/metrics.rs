//! How far a candidate's values are from the source's.

mod columns;
mod distribution;
mod flips;
mod histogram;
mod perplexity;
mod spread;

use serde::{Deserialize, Serialize};

pub use columns::ByPosition;
pub(crate) use columns::Columns;
pub use flips::Flip;
pub(crate) use flips::Flips;
pub use histogram::KlHistogram;
pub use perplexity::Perplexity;
pub(crate) use perplexity::Surprise;

use crate::noise::{Cell, Cells, Floor};
use distribution::{Distribution, percentile};
use spread::Spread;

/// Where in a prompt set something was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Row of the batch.
    pub row: usize,
    /// Column of the row, padding counted.
    pub column: usize,
}

/// What a comparison of logits (or of cache tensors) measured.
///
/// Figures of distributions are `None` where there is no distribution: for cache tensors, and where no position was finite on both sides.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metrics {
    /// Positions compared.
    pub positions: usize,
    /// Values that are NaN or infinite on either side. More than 0 never passes.
    pub nonfinite: usize,
    /// What relative figures are relative to: the (population) standard deviation of the source's finite values; where that is 0, their
    /// largest magnitude, or 1 where that is 0 too.
    pub scale: f64,
    /// Largest absolute difference over the values that are finite on both sides.
    pub max_abs: f64,
    /// Mean absolute difference over the same values.
    pub mean_abs: f64,
    /// `max_abs` over `scale`.
    pub max_rel: f64,
    /// `mean_abs` over `scale`.
    pub mean_rel: f64,
    /// Mean over positions of KL(source‖candidate), in nats.
    pub kl_mean: Option<f64>,
    /// 99th percentile of the same, linearly interpolated.
    pub kl_p99: Option<f64>,
    /// Maximum of the same.
    pub kl_max: Option<f64>,
    /// Share of positions where both sides have their largest logit at the same entry (the lowest where several are equal).
    pub top1_agreement: Option<f64>,
    /// Mean over positions of the share of the source's five largest logits that are among the candidate's five.
    pub top5_overlap: Option<f64>,
    /// Where `max_abs` is, or the first value that is not finite.
    pub worst: Option<Place>,
    /// What rounding alone makes of the same figures, where that was measured.
    pub floor: Option<Floor>,
    /// Source margins of all positions, in deviations, and whether the largest logit flipped.
    pub(crate) margins: Vec<(f64, bool)>,
    pub(crate) columns: Columns,
    pub(crate) histogram: KlHistogram,
    pub(crate) flips: Flips,
    pub(crate) surprise: Surprise,
}

/// Collects positions one by one; holds some dozen bytes a position and no logits.
#[derive(Debug, Default)]
pub struct Meter {
    spread: Spread,
    positions: usize,
    divergences: Vec<f64>,
    /// Source's margin, and whether the largest logit flipped.
    margins: Vec<(f64, bool)>,
    overlap: usize,
    overlap_of: usize,
    columns: Columns,
    flips: Flips,
    surprise: Surprise,
    noise: Cells,
}

impl Meter {
    /// Compares the `[vocab]` logits of one position.
    ///
    /// # Panics
    /// The two have different lengths: the callers compare shapes first.
    pub fn add_logits(&mut self, place: Place, source: &[f32], candidate: &[f32]) {
        self.add_logits_before(place, source, candidate, None);
    }

    /// The same, of a position that the token `next` follows.
    pub(crate) fn add_logits_before(&mut self, place: Place, source: &[f32], candidate: &[f32], next: Option<usize>) {
        assert_eq!(source.len(), candidate.len(), "the vocabularies were compared before");
        self.positions += 1;
        let difference = self.spread.add(place, source, candidate);
        let distribution = Distribution::of(source, candidate, next, difference.nonfinite == 0);
        self.columns.add(place.column, difference);
        self.columns.add_distribution(place.column, &distribution);
        self.divergences.extend(distribution.kl);
        self.margins.push((distribution.margin, distribution.flipped));
        self.overlap += distribution.overlap;
        self.overlap_of += distribution.of;
        if let Some(surprise) = distribution.surprise {
            self.surprise.add(surprise);
        }
        if let (true, [Some(source), Some(candidate)]) = (distribution.flipped && distribution.kl.is_some(), distribution.best) {
            self.flips.add(Flip { set: String::new(), place, margin: distribution.margin, source, candidate });
        }
    }

    /// Compares plain values (cache tensors), which count as no position of their own.
    ///
    /// # Panics
    /// The two have different lengths: the callers compare shapes first.
    pub(crate) fn add_values(&mut self, place: Place, source: &[f32], candidate: &[f32]) {
        assert_eq!(source.len(), candidate.len(), "the shapes were compared before");
        let difference = self.spread.add(place, source, candidate);
        self.columns.add(place.column, difference);
    }

    /// Values of a position that is compared with nothing, but is to be finite.
    pub(crate) fn add_unknown(&mut self, place: Place, values: &[f32]) {
        if values.iter().any(|value| !value.is_finite()) {
            self.spread.add(place, values, values);
        }
    }

    /// One that also takes what rounding alone does to the positions it compares; `typical` is that of the source's average position.
    pub(crate) fn beside(typical: Option<Cell>) -> Self {
        Self { noise: typical.map(Cells::above).unwrap_or_default(), ..Self::default() }
    }

    /// What rounding alone does to the position at `place`.
    pub(crate) fn add_noise(&mut self, place: Place, cell: Cell) {
        self.noise.add(cell);
        self.columns.add_noise(place.column, cell);
    }

    /// Positions compared so far.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// The figures.
    pub fn finish(&self) -> Metrics {
        let spread = &self.spread;
        let scale = spread.scale();
        let mut kl = self.divergences.clone();
        kl.sort_by(f64::total_cmp);
        let share = |count: usize, of: usize| (of > 0).then(|| count as f64 / of as f64);
        let agreeing = self.margins.iter().filter(|(_, flipped)| !flipped).count();
        let mean_abs = if spread.count == 0 { 0.0 } else { spread.sum_abs / spread.count as f64 };
        Metrics {
            positions: self.positions,
            nonfinite: spread.nonfinite,
            scale,
            max_abs: spread.max_abs,
            mean_abs,
            max_rel: spread.max_abs / scale,
            mean_rel: mean_abs / scale,
            kl_mean: (!kl.is_empty()).then(|| kl.iter().sum::<f64>() / kl.len() as f64),
            kl_p99: percentile(&kl, 0.99),
            kl_max: kl.last().copied(),
            top1_agreement: share(agreeing, self.margins.len()),
            top5_overlap: share(self.overlap, self.overlap_of),
            worst: spread.worst,
            floor: self.noise.floor(scale),
            margins: self.margins.iter().map(|&(margin, flipped)| (margin / scale, flipped)).collect(),
            columns: self.columns.finish(scale),
            histogram: KlHistogram::of(&kl),
            flips: self.flips.finish(scale),
            surprise: self.surprise,
        }
    }
}

impl Metrics {
    /// Positions whose top-1/top-2 margin in the source is beyond `margin` deviations, so that rounding cannot swap the two; and those of them
    /// where the candidate's largest logit is at another entry.
    ///
    /// A margin that is NaN (logits that are not finite) is not decided; such positions fail by `nonfinite`.
    pub fn decided(&self, margin: f64) -> (usize, usize) {
        let decided = || self.margins.iter().filter(|position| position.0 > margin);
        (decided().count(), decided().filter(|position| position.1).count())
    }

    /// The worse of each figure over two comparisons; what is counted adds up. `true` where `other` holds the worst place.
    pub(crate) fn merge(&mut self, other: &Self) -> bool {
        let other_is_worse = (other.nonfinite > 0, other.max_rel) > (self.nonfinite > 0, self.max_rel) || self.worst.is_none();
        if other_is_worse {
            self.worst = other.worst;
        }
        let larger = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        let smaller = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::min);
        self.positions += other.positions;
        self.nonfinite += other.nonfinite;
        self.max_abs = self.max_abs.max(other.max_abs);
        self.mean_abs = self.mean_abs.max(other.mean_abs);
        self.max_rel = self.max_rel.max(other.max_rel);
        self.mean_rel = self.mean_rel.max(other.mean_rel);
        self.kl_mean = larger(self.kl_mean, other.kl_mean);
        self.kl_p99 = larger(self.kl_p99, other.kl_p99);
        self.kl_max = larger(self.kl_max, other.kl_max);
        self.top1_agreement = smaller(self.top1_agreement, other.top1_agreement);
        self.top5_overlap = smaller(self.top5_overlap, other.top5_overlap);
        self.floor = match (self.floor, other.floor) {
            (Some(ours), Some(theirs)) => Some(ours.or_larger(theirs)),
            (one, another) => one.or(another),
        };
        self.margins.extend_from_slice(&other.margins);
        self.columns.merge(&other.columns);
        self.histogram.merge(&other.histogram);
        self.flips.merge(&other.flips);
        self.surprise.merge(&other.surprise);
        other_is_worse
    }
}

#[cfg(test)]
mod tests;
