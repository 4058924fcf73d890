//! Figures as text, and the figures of checks as the drawings take them.

use super::plots::{Bin, Margin, Panel, Ratio, Row};
use super::scale::power;
use crate::verdict::{Check, OracleKind};

/// `1.2e-5`; `0` where it is.
pub(super) fn figure(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:.1e}") }
}

/// The same of a figure that may be missing.
pub(super) fn figure_or_none(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), figure)
}

/// `99.87 %`; never rounded up to all.
pub(super) fn share(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(1.0) => "100 %".to_owned(),
        Some(value) => format!("{:.2} %", (value * 1e4).floor() / 100.0),
    }
}

/// `12,345`.
pub(super) fn count(value: usize) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

/// `golden` or `reference`.
pub(super) fn oracle(kind: OracleKind) -> &'static str {
    match kind {
        OracleKind::Golden => "golden",
        OracleKind::Reference => "reference",
    }
}

/// What drawings call a check: its name, and its oracle where the checks have both.
fn name(check: &Check, checks: &[Check]) -> String {
    let both = checks.iter().any(|other| other.oracle != check.oracle);
    if both { format!("{} · {}", check.name, oracle(check.oracle)) } else { check.name.to_string() }
}

/// A limit that limits.
fn finite(limit: f64) -> Option<f64> {
    limit.is_finite().then_some(limit)
}

/// The largest share of its limit that a figure of `check` takes; `None` where nothing limits it.
pub(super) fn of_limit(check: &Check) -> Option<f64> {
    let tolerance = &check.tolerance;
    let shares = [
        (Some(check.max_rel), tolerance.max_rel),
        (Some(check.mean_rel), tolerance.mean_rel),
        (check.kl_mean, tolerance.kl_mean),
        (check.kl_max, tolerance.kl_max),
        (Some(check.max_abs), tolerance.max_abs),
    ];
    let shares = shares.into_iter().filter_map(|(value, limit)| Some(value? / finite(limit)?));
    // 0 of 0 is nothing; NaN is beyond any limit.
    shares.map(|share| if share.is_nan() { 0.0 } else { share }).reduce(f64::max)
}

/// Error by position of every check against `kind`.
pub(super) fn panels(checks: &[Check], kind: OracleKind) -> Vec<Panel> {
    let panel = |check: &Check| {
        let by = &check.by_position;
        let flips = by.column.iter().zip(&by.flips).zip(&by.flip_margin);
        Panel {
            name: check.name.to_string(),
            passed: check.passed,
            columns: by.column.clone(),
            error: by.max_rel.clone(),
            floor: by.floor_max_rel.clone(),
            limit: finite(check.tolerance.max_rel),
            flips: flips.filter(|((_, flips), _)| **flips > 0).map(|((column, _), margin)| (*column, *margin)).collect(),
        }
    };
    checks.iter().filter(|check| check.oracle == kind).map(panel).collect()
}

/// Error over floor of every check that has one, and the factor that all of those are held to.
pub(super) fn over_floor(checks: &[Check]) -> (Vec<Ratio>, Option<f64>) {
    let measured = || checks.iter().filter_map(|check| Some((check, check.error_over_floor?)));
    let bars = measured().map(|(check, ratio)| Ratio { name: name(check, checks), passed: check.passed, ratio });
    let mut factors = measured().map(|(check, _)| check.tolerance.factor);
    let first = factors.next().flatten();
    (bars.collect(), first.filter(|_| factors.all(|factor| factor == first)))
}

/// Share of the limit of every check that has one.
pub(super) fn over_limit(checks: &[Check]) -> Vec<Ratio> {
    let bar = |check: &Check| Some(Ratio { name: name(check, checks), passed: check.passed, ratio: of_limit(check)? });
    checks.iter().filter_map(bar).collect()
}

/// Divergences of all checks together.
pub(super) fn bins(checks: &[Check]) -> Vec<Bin> {
    let mut bins: Vec<Bin> = Vec::new();
    for check in checks {
        let Some(histogram) = &check.kl_histogram else { continue };
        for (index, count) in histogram.counts.iter().enumerate() {
            if bins.len() <= index {
                let edge = index.checked_sub(1).and_then(|edge| histogram.edges.get(edge));
                let from = edge.map(|edge| power(edge.log10().round() as i32)).unwrap_or_default();
                bins.push(Bin { from, good: 0, bad: 0 });
            }
            let bin = &mut bins[index];
            *(if check.passed { &mut bin.good } else { &mut bin.bad }) += count;
        }
    }
    bins
}

/// The flips of every check.
pub(super) fn flips(checks: &[Check]) -> Vec<Row> {
    let row = |check: &Check| Row {
        name: name(check, checks),
        decided: check.tolerance.margin,
        flips: check
            .flips
            .iter()
            .map(|flip| Margin {
                margin: flip.margin,
                said: format!(
                    "set {}, row {}, column {}: source {}, candidate {}, margin {}",
                    flip.set,
                    flip.place.row,
                    flip.place.column,
                    flip.source,
                    flip.candidate,
                    figure(flip.margin)
                ),
            })
            .collect(),
    };
    checks.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_shares_are_not_rounded_up() {
        assert_eq!([0.0, 1.234e-5, 3.0, f64::INFINITY].map(figure), ["0", "1.2e-5", "3.0e0", "inf"]);
        assert_eq!([None, Some(1.0), Some(0.99999), Some(0.5)].map(share), ["–", "100 %", "99.99 %", "50.00 %"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}
