//! How far a candidate's values are from the source's.

use serde::{Deserialize, Serialize};

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
    /// Positions whose top-1/top-2 margin in the source is beyond the tolerance's margin, so that rounding cannot swap the two.
    pub decided: usize,
    /// Those of `decided` where the candidate's largest logit is at another entry.
    pub decided_flips: usize,
    /// Where `max_abs` is, or the first value that is not finite.
    pub worst: Option<Place>,
}

/// Collects positions one by one; holds 32 bytes a position and no logits.
#[derive(Debug, Default)]
pub struct Meter {
    spread: Spread,
    positions: usize,
    distributions: Vec<Distribution>,
    overlap: usize,
    overlap_of: usize,
}

#[derive(Debug)]
struct Distribution {
    /// `None` where a value is not finite.
    kl: Option<f64>,
    /// Source's top-1 minus top-2 logit.
    margin: f64,
    flipped: bool,
}

impl Meter {
    /// Compares the `[vocab]` logits of one position.
    ///
    /// # Panics
    /// The two have different lengths: the callers compare shapes first.
    pub fn add_logits(&mut self, place: Place, source: &[f32], candidate: &[f32]) {
        assert_eq!(source.len(), candidate.len(), "the vocabularies were compared before");
        self.positions += 1;
        let finite = self.spread.add(place, source, candidate) == 0;
        let (best, runners) = (top(source), top(candidate));
        let margin = match best.as_slice() {
            [first, second, ..] => f64::from(source[*first]) - f64::from(source[*second]),
            _ => f64::INFINITY,
        };
        let flipped = !finite || best.first() != runners.first();
        let kl = finite.then(|| divergence(source, candidate));
        self.distributions.push(Distribution { kl, margin, flipped });
        self.overlap += if finite { best.iter().filter(|index| runners.contains(index)).count() } else { 0 };
        self.overlap_of += source.len().min(TOP);
    }

    /// Compares plain values (cache tensors), which count as no position of their own.
    ///
    /// # Panics
    /// The two have different lengths: the callers compare shapes first.
    pub(crate) fn add_values(&mut self, place: Place, source: &[f32], candidate: &[f32]) {
        assert_eq!(source.len(), candidate.len(), "the shapes were compared before");
        self.spread.add(place, source, candidate);
    }

    /// Positions compared so far.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// The figures. A position is decided where its margin exceeds `margin` standard deviations of the source.
    pub fn finish(&self, margin: f64) -> Metrics {
        let spread = &self.spread;
        let scale = spread.scale();
        let mut kl: Vec<f64> = self.distributions.iter().filter_map(|position| position.kl).collect();
        kl.sort_by(f64::total_cmp);
        let share = |count: usize, of: usize| (of > 0).then(|| count as f64 / of as f64);
        let agreeing = self.distributions.iter().filter(|position| !position.flipped).count();
        // A margin that is NaN (not finite logits) is not decided; such positions fail by `nonfinite`.
        let decided = || self.distributions.iter().filter(|position| position.margin > margin * scale);
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
            top1_agreement: share(agreeing, self.distributions.len()),
            top5_overlap: share(self.overlap, self.overlap_of),
            decided: decided().count(),
            decided_flips: decided().filter(|position| position.flipped).count(),
            worst: spread.worst,
        }
    }
}

/// Differences and the source's spread, in f64.
#[derive(Debug, Default)]
struct Spread {
    max_abs: f64,
    worst: Option<Place>,
    sum_abs: f64,
    count: usize,
    nonfinite: usize,
    source_count: usize,
    source_mean: f64,
    /// Sum of squared deviations from the mean.
    source_deviation: f64,
    source_magnitude: f64,
}

impl Spread {
    /// Returns how many of these values are not finite on either side.
    fn add(&mut self, place: Place, source: &[f32], candidate: &[f32]) -> usize {
        let mut nonfinite = 0;
        for (&s, &c) in source.iter().zip(candidate) {
            if !(s.is_finite() && c.is_finite()) {
                nonfinite += 1;
                continue;
            }
            let difference = (f64::from(s) - f64::from(c)).abs();
            self.sum_abs += difference;
            self.count += 1;
            if difference > self.max_abs || self.worst.is_none() {
                self.max_abs = difference;
                if self.nonfinite == 0 {
                    self.worst = Some(place);
                }
            }
        }
        if nonfinite > 0 && self.nonfinite == 0 {
            self.worst = Some(place);
        }
        self.nonfinite += nonfinite;
        self.add_source(source);
        nonfinite
    }

    /// Merges the moments of these values into those so far (Chan, Golub and LeVeque, 1979): two passes over each position, so that a
    /// large common offset costs no digits.
    fn add_source(&mut self, source: &[f32]) {
        let finite = || source.iter().filter(|value| value.is_finite()).map(|&value| f64::from(value));
        let count = finite().count();
        if count == 0 {
            return;
        }
        let mean = finite().sum::<f64>() / count as f64;
        let deviation: f64 = finite().map(|value| (value - mean) * (value - mean)).sum();
        let (before, after) = (self.source_count as f64, (self.source_count + count) as f64);
        let shift = mean - self.source_mean;
        self.source_mean += shift * count as f64 / after;
        self.source_deviation += deviation + shift * shift * before * count as f64 / after;
        self.source_count += count;
        self.source_magnitude = finite().fold(self.source_magnitude, |largest, value| largest.max(value.abs()));
    }

    fn scale(&self) -> f64 {
        let deviation = if self.source_count == 0 { 0.0 } else { (self.source_deviation / self.source_count as f64).sqrt() };
        [deviation, self.source_magnitude].into_iter().find(|&scale| scale > 0.0).unwrap_or(1.0)
    }
}

const TOP: usize = 5;

/// Indices of the five largest values, largest first, the lower index first among equals. NaN is never among them.
fn top(values: &[f32]) -> Vec<usize> {
    let mut best: Vec<usize> = Vec::with_capacity(TOP + 1);
    for (index, value) in values.iter().enumerate() {
        if value.is_nan() || best.len() == TOP && *value <= values[best[TOP - 1]] {
            continue;
        }
        let at = best.iter().position(|&other| *value > values[other]).unwrap_or(best.len());
        best.insert(at, index);
        best.truncate(TOP);
    }
    best
}

/// KL(source‖candidate) of the softmaxes of two finite logit vectors, in nats and f64; rounding below 0 is 0.
fn divergence(source: &[f32], candidate: &[f32]) -> f64 {
    let largest = |values: &[f32]| values.iter().fold(f64::NEG_INFINITY, |largest, &value| largest.max(f64::from(value)));
    let (source_max, candidate_max) = (largest(source), largest(candidate));
    let (mut source_sum, mut candidate_sum, mut difference) = (0.0, 0.0, 0.0);
    for (&s, &c) in source.iter().zip(candidate) {
        let (s, c) = (f64::from(s) - source_max, f64::from(c) - candidate_max);
        let weight = s.exp();
        source_sum += weight;
        candidate_sum += c.exp();
        difference += weight * (s - c);
    }
    (difference / source_sum - source_sum.ln() + candidate_sum.ln()).max(0.0)
}

/// The value a share `q` of the way through sorted values, linearly interpolated between neighbours.
fn percentile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q * last as f64;
    let below = sorted[at.floor() as usize];
    let above = sorted[(at.ceil() as usize).min(last)];
    Some(below + (above - below) * at.fract())
}

impl Metrics {
    /// The worse of each figure over two comparisons; positions, nonfinite and decided add up. `true` where `other` holds the worst place.
    pub(crate) fn merge(&mut self, other: &Self) -> bool {
        let other_is_worse = (other.nonfinite > 0, other.max_rel) > (self.nonfinite > 0, self.max_rel) || self.worst.is_none();
        if other_is_worse {
            self.worst = other.worst;
        }
        let larger = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        let smaller = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::min);
        self.positions += other.positions;
        self.nonfinite += other.nonfinite;
        self.decided += other.decided;
        self.decided_flips += other.decided_flips;
        self.max_abs = self.max_abs.max(other.max_abs);
        self.mean_abs = self.mean_abs.max(other.mean_abs);
        self.max_rel = self.max_rel.max(other.max_rel);
        self.mean_rel = self.mean_rel.max(other.mean_rel);
        self.kl_mean = larger(self.kl_mean, other.kl_mean);
        self.kl_p99 = larger(self.kl_p99, other.kl_p99);
        self.kl_max = larger(self.kl_max, other.kl_max);
        self.top1_agreement = smaller(self.top1_agreement, other.top1_agreement);
        self.top5_overlap = smaller(self.top5_overlap, other.top5_overlap);
        other_is_worse
    }
}

#[cfg(test)]
mod tests;
