//! Softmax over what one query sees.

use std::ops::Range;

use crate::exp::exp_of_negative;
use crate::range::largest;
use crate::vector::{sum, vectorised};

/// The columns that the query at column `own` may see by position: itself, and those before it that the window reaches.
pub(crate) fn reach(own: usize, window: Option<u64>) -> Range<usize> {
    window.map_or(0, |window| (own + 1).saturating_sub(usize::try_from(window).unwrap_or(usize::MAX)))..own + 1
}

/// Softmax over the columns that a query sees, zero elsewhere: `reach`, which ends with its own column, as far as the mask attends.
///
/// Seeing itself whatever the mask says keeps rows of padding finite; nobody else sees those columns. `sink` is a score that takes
/// its share and has no column.
pub(crate) fn masked_softmax(scores: &mut [f32], mask: &[i64], reach: Range<usize>, sink: Option<f32>) {
    let own = reach.end - 1;
    scores[..reach.start].fill(0.0);
    scores[reach.end..].fill(0.0);
    vectorised(
        #[inline(always)]
        || {
            for (score, &attend) in scores[reach.start..own].iter_mut().zip(&mask[reach.start..own]) {
                *score = if attend == 0 { f32::NEG_INFINITY } else { *score };
            }
            let seen = &mut scores[reach];
            let max = largest(seen, |score| score).max(sink.unwrap_or(f32::NEG_INFINITY));
            for score in &mut *seen {
                *score = exp_of_negative(*score - max);
            }
            let of_sink = sink.map_or(0.0, |sink| exp_of_negative(sink - max));
            let share = (1.0 / (sum(seen, |score| score) + f64::from(of_sink))) as f32;
            for score in seen {
                *score *= share;
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(mask: &[i64], own: usize, window: Option<u64>) -> Vec<f32> {
        let mut scores = vec![3.0; mask.len()];
        masked_softmax(&mut scores, mask, reach(own, window), None);
        scores
    }

    #[test]
    fn equal_scores_are_shared_by_the_columns_in_sight() {
        let third = 1.0f32 / 3.0;
        assert_eq!(seen(&[1, 1, 1, 1], 2, None), [third, third, third, 0.0]);
        assert_eq!(seen(&[0, 1, 0, 1], 3, None), [0.0, 0.5, 0.0, 0.5]);
        assert_eq!(seen(&[1, 1, 1, 1], 3, Some(2)), [0.0, 0.0, 0.5, 0.5]);
        assert_eq!(seen(&[1, 1, 1, 1], 3, Some(1)), [0.0, 0.0, 0.0, 1.0]);
        assert_eq!(seen(&[0, 0, 0, 1], 1, None), [0.0, 1.0, 0.0, 0.0], "padding sees itself alone");
    }

    #[test]
    fn a_sink_takes_its_share() {
        let mut scores = [3.0, 3.0, 3.0];
        masked_softmax(&mut scores, &[1, 1, 1], 0..3, Some(3.0));
        assert_eq!(scores, [0.25; 3]);
        let mut scores = [3.0, -1e30, 3.0];
        masked_softmax(&mut scores, &[1, 1, 1], 0..3, Some(1e30));
        assert_eq!(scores, [0.0; 3]);
    }

    #[test]
    fn large_scores_stay_finite() {
        let mut scores = [1e30, 1e30, -1e30];
        masked_softmax(&mut scores, &[1, 1, 1], 0..3, None);
        assert_eq!(scores, [0.5, 0.5, 0.0]);
    }

    #[test]
    fn nan_scores_stay_nan() {
        for (scores, sink) in [([f32::NAN, 0.0], None), ([0.0, 0.0], Some(f32::NAN))] {
            let mut scores = scores;
            masked_softmax(&mut scores, &[1, 1], 0..2, sink);
            assert!(scores.iter().all(|score| score.is_nan()), "{scores:?}");
        }
    }
}
