//! From figures to places on a drawing.

/// Whole decades, from the lowest to the highest figure, over a stretch of the drawing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Log {
    low: i32,
    high: i32,
    from: f64,
    to: f64,
}

/// Decades that a scale spans at most; what is lower lies on its lower end.
const MOST_DECADES: i32 = 12;

impl Log {
    /// Decades around all `figures` that are finite and above 0; one around 1 where there is none.
    pub(super) fn around(figures: impl IntoIterator<Item = f64>, from: f64, to: f64) -> Self {
        let decades = figures.into_iter().filter(|figure| figure.is_finite() && *figure > 0.0).map(f64::log10);
        let range = decades.fold(None, |range: Option<(f64, f64)>, decade| {
            Some(range.map_or((decade, decade), |(low, high)| (low.min(decade), high.max(decade))))
        });
        let (low, high) = range.map_or((0, 1), |(low, high)| (low.floor() as i32, high.ceil() as i32));
        let high = high.max(low + 1);
        Self { low: low.max(high - MOST_DECADES), high, from, to }
    }

    /// The place of `figure`; beyond the ends, and not finite, on the nearer end.
    pub(super) fn at(&self, figure: f64) -> f64 {
        let decade = if figure.is_nan() { f64::INFINITY } else { figure.max(0.0).log10() };
        let share = (decade.clamp(f64::from(self.low), f64::from(self.high)) - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + share * (self.to - self.from)
    }

    /// Exponents of some decades, the ends among them: at most `most` and at least two.
    pub(super) fn ticks(&self, most: usize) -> Vec<i32> {
        let span = self.high - self.low;
        let divides = |step: &i32| span % step == 0 && ((span / step) as usize) < most.max(2);
        let step = (1..=span).find(divides).unwrap_or(span);
        (self.low..=self.high).step_by(step as usize).collect()
    }
}

/// Evenly, from 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Linear {
    most: f64,
    from: f64,
    to: f64,
}

impl Linear {
    pub(super) fn up_to(most: f64, from: f64, to: f64) -> Self {
        Self { most: if most > 0.0 { most } else { 1.0 }, from, to }
    }

    pub(super) fn at(&self, figure: f64) -> f64 {
        self.from + (figure / self.most).clamp(0.0, 1.0) * (self.to - self.from)
    }
}

/// `1e-6`, and plain numbers near 1.
pub(super) fn power(exponent: i32) -> String {
    match exponent {
        -1 => "0.1".to_owned(),
        0 => "1".to_owned(),
        1 => "10".to_owned(),
        2 => "100".to_owned(),
        3 => "1000".to_owned(),
        _ => format!("1e{exponent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_hold_all_figures_and_ends_take_the_rest() {
        let scale = Log::around([3e-6, 0.0, f64::INFINITY, 2e-3], 100.0, 0.0);
        assert_eq!(scale, Log { low: -6, high: -2, from: 100.0, to: 0.0 });
        assert_eq!([1e-6, 1e-4, 1e-2].map(|figure| scale.at(figure)), [100.0, 50.0, 0.0]);
        assert_eq!([0.0, -1.0, 1e-9].map(|figure| scale.at(figure)), [100.0; 3]);
        assert_eq!([1.0, f64::INFINITY, f64::NAN].map(|figure| scale.at(figure)), [0.0; 3]);
        assert_eq!(Log::around([], 0.0, 1.0).ticks(5), [0, 1]);
        assert_eq!(Log::around([1.0], 0.0, 1.0).ticks(5), [0, 1]);
        assert_eq!(Log::around([1e-300, 1.0], 0.0, 1.0).low, -12);
    }

    #[test]
    fn ticks_are_even_and_few() {
        let ticks = |low: f64, high: f64, most| Log::around([low, high], 0.0, 1.0).ticks(most);
        assert_eq!(ticks(1e-6, 1e-2, 5), [-6, -5, -4, -3, -2]);
        assert_eq!(ticks(1e-6, 1e-2, 4), [-6, -4, -2]);
        assert_eq!(ticks(1e-7, 1.0, 4), [-7, 0]);
    }

    #[test]
    fn lines_start_at_nothing() {
        let scale = Linear::up_to(4.0, 10.0, 50.0);
        assert_eq!([0.0, 1.0, 4.0, 9.0].map(|figure| scale.at(figure)), [10.0, 20.0, 50.0, 50.0]);
        assert_eq!(Linear::up_to(0.0, 0.0, 1.0).at(0.0), 0.0);
    }
}
