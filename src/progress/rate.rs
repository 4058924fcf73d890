//! How fast bytes are done, and how long the rest takes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What a rate is taken of: long enough not to jump, short enough to follow a disk that gets slow.
const WINDOW: Duration = Duration::from_secs(10);
/// A rate over less than this says nothing.
const SHORTEST: Duration = Duration::from_millis(500);
/// Reports that are closer than this are one.
const STEP: Duration = Duration::from_millis(100);

/// Bytes that were done when.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    samples: VecDeque<(Instant, u64)>,
}

impl Rate {
    /// `done` bytes are done now.
    pub(crate) fn add(&mut self, now: Instant, done: u64) {
        let several = self.samples.len() > 1;
        match self.samples.back_mut() {
            Some((last, bytes)) if several && now.duration_since(*last) < STEP => *bytes = done,
            _ => self.samples.push_back((now, done)),
        }
        // One that is older than the window stays, so that there is always something to compare with.
        while self.samples.get(1).is_some_and(|(time, _)| now.duration_since(*time) > WINDOW) {
            self.samples.pop_front();
        }
    }

    /// Bytes in a second, of late. Falls while nothing comes.
    pub(crate) fn per_second(&self, now: Instant) -> Option<f64> {
        let ((first, before), (_, after)) = (self.samples.front()?, self.samples.back()?);
        let time = now.duration_since(*first);
        (time >= SHORTEST && after > before).then(|| (after - before) as f64 / time.as_secs_f64())
    }

    /// How long the rest of `total` takes at this rate.
    pub(crate) fn left(&self, now: Instant, total: u64) -> Option<Duration> {
        let (_, done) = self.samples.back()?;
        Duration::try_from_secs_f64(total.saturating_sub(*done) as f64 / self.per_second(now)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_time_left_follow_the_last_seconds() {
        let (start, mut rate) = (Instant::now(), Rate::default());
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        rate.add(at(0.0), 0);
        assert_eq!((rate.per_second(at(0.1)), rate.left(at(0.1), 1000)), (None, None), "nothing is known yet");
        for second in 1..=20_u32 {
            rate.add(at(f64::from(second)), u64::from(second) * 100);
        }
        assert_eq!(rate.per_second(at(20.0)), Some(100.0));
        assert_eq!(rate.left(at(20.0), 3000), Some(Duration::from_secs(10)));
        // Ten times as fast from here: after the window, nothing is left of the slow ones.
        for second in 1..=20_u32 {
            rate.add(at(20.0 + f64::from(second)), 2000 + u64::from(second) * 1000);
        }
        assert_eq!(rate.per_second(at(40.0)), Some(1000.0));
        // A stall: the same bytes, of 11 seconds, over 21.
        assert_eq!(rate.per_second(at(50.0)), Some(11_000.0 / 21.0));
        assert_eq!(rate.left(at(50.0), 33_000).map(|left| left.as_secs_f64().round()), Some(21.0));
    }

    #[test]
    fn many_reports_in_a_moment_are_few_samples() {
        let (start, mut rate) = (Instant::now(), Rate::default());
        for report in 0..100_000_u64 {
            rate.add(start + Duration::from_micros(report * 10), report);
        }
        assert!(rate.samples.len() < 20, "{}", rate.samples.len());
    }
}
