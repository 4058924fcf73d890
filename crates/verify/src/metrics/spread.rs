//! Differences and the source's spread, in f64.

use super::Place;

/// Over all values of a comparison.
#[derive(Debug, Default)]
pub(super) struct Spread {
    pub(super) max_abs: f64,
    pub(super) worst: Option<Place>,
    pub(super) sum_abs: f64,
    pub(super) count: usize,
    pub(super) nonfinite: usize,
    source_count: usize,
    source_mean: f64,
    /// Sum of squared deviations from the mean.
    source_deviation: f64,
    source_magnitude: f64,
}

/// What one position added.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Difference {
    pub(super) max_abs: f64,
    pub(super) sum_abs: f64,
    /// Values that are finite on both sides.
    pub(super) count: usize,
    pub(super) nonfinite: usize,
}

impl Spread {
    pub(super) fn add(&mut self, place: Place, source: &[f32], candidate: &[f32]) -> Difference {
        let mut found = Difference::default();
        for (&s, &c) in source.iter().zip(candidate) {
            if !(s.is_finite() && c.is_finite()) {
                found.nonfinite += 1;
                continue;
            }
            let difference = (f64::from(s) - f64::from(c)).abs();
            found.sum_abs += difference;
            found.count += 1;
            found.max_abs = found.max_abs.max(difference);
        }
        if self.nonfinite == 0 && found.count > 0 && (found.max_abs > self.max_abs || self.worst.is_none()) {
            self.worst = Some(place);
        }
        if self.nonfinite == 0 && found.nonfinite > 0 {
            self.worst = Some(place);
        }
        self.max_abs = self.max_abs.max(found.max_abs);
        self.sum_abs += found.sum_abs;
        self.count += found.count;
        self.nonfinite += found.nonfinite;
        self.add_source(source);
        found
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

    /// What relative figures are relative to.
    pub(super) fn scale(&self) -> f64 {
        let deviation = if self.source_count == 0 { 0.0 } else { (self.source_deviation / self.source_count as f64).sqrt() };
        [deviation, self.source_magnitude].into_iter().find(|&scale| scale > 0.0).unwrap_or(1.0)
    }
}
