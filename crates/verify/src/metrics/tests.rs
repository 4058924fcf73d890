//! Against numpy: `tools/make_metrics_cases.py`.

use serde_json::Value;

use super::*;

fn rows(value: &Value) -> Vec<Vec<f32>> {
    let number = |value: &Value| match value {
        Value::String(text) => text.parse().unwrap(),
        value => value.as_f64().unwrap() as f32,
    };
    value.as_array().unwrap().iter().map(|row| row.as_array().unwrap().iter().map(number).collect()).collect()
}

fn close(name: &str, found: Option<f64>, wanted: &Value) {
    let Some(wanted) = wanted.as_f64() else {
        assert_eq!((found, wanted), (None, &Value::Null), "{name}");
        return;
    };
    let found = found.unwrap_or_else(|| panic!("{name} is missing; {wanted} was wanted"));
    assert!((found - wanted).abs() <= 1e-12 + 1e-9 * wanted.abs(), "{name} is {found}; numpy says {wanted}");
}

#[test]
fn figures_are_those_of_numpy() {
    let cases: Value = serde_json::from_str(include_str!("../../../../testdata/verify/metrics.json")).unwrap();
    let cases = cases.as_array().unwrap();
    assert!(cases.len() >= 20);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let mut meter = Meter::default();
        for (row, (source, candidate)) in rows(&case["source"]).iter().zip(&rows(&case["candidate"])).enumerate() {
            let next = (5 * row + 1) % source.len();
            meter.add_logits_before(Place { row, column: row % 3 }, source, candidate, Some(next));
        }
        let found = meter.finish();
        let (decided, decided_flips) = found.decided(case["margin"].as_f64().unwrap());
        let wanted = &case["expected"];
        for (figure, value) in [
            ("positions", Some(found.positions as f64)),
            ("nonfinite", Some(found.nonfinite as f64)),
            ("decided", Some(decided as f64)),
            ("decided_flips", Some(decided_flips as f64)),
            ("scale", Some(found.scale)),
            ("max_abs", Some(found.max_abs)),
            ("mean_abs", Some(found.mean_abs)),
            ("max_rel", Some(found.max_rel)),
            ("mean_rel", Some(found.mean_rel)),
            ("kl_mean", found.kl_mean),
            ("kl_p99", found.kl_p99),
            ("kl_max", found.kl_max),
            ("top1_agreement", found.top1_agreement),
            ("top5_overlap", found.top5_overlap),
        ] {
            close(&format!("{name}: {figure}"), value, &wanted[figure]);
        }
        details(name, &found, wanted);
    }
}

/// What is not one figure.
fn details(name: &str, found: &Metrics, wanted: &Value) {
    let perplexity = found.surprise.perplexity().map(|both| [both.source, both.candidate]);
    match wanted["perplexity"].as_array() {
        None => assert_eq!(perplexity, None, "{name}"),
        Some(wanted) => {
            for (value, wanted) in perplexity.unwrap().into_iter().zip(wanted) {
                close(&format!("{name}: perplexity"), value.is_finite().then_some(value), wanted);
            }
        }
    }
    // Where all divergences are rounding, so is their decade.
    if name != "one_shift_a_row" {
        assert_eq!(serde_json::to_value(&found.histogram.counts).unwrap(), wanted["kl_counts"], "{name}");
    }
    let flips = wanted["flips"].as_array().unwrap();
    assert_eq!(found.flips.list().len(), flips.len(), "{name}");
    for (flip, wanted) in found.flips.list().iter().zip(flips) {
        assert_eq!(flip.place.row as u64, wanted[1], "{name}");
        close(&format!("{name}: margin of a flip"), Some(flip.margin), &wanted[0]);
    }
    let table = found.columns.by_position();
    let columns = wanted["by_column"].as_object().unwrap();
    assert_eq!(table.column.len(), columns.len(), "{name}");
    for (index, column) in table.column.iter().enumerate() {
        for (figure, value) in [
            ("positions", table.positions[index] as f64),
            ("max_abs", table.max_abs[index]),
            ("mean_abs", table.mean_abs[index]),
            ("max_rel", table.max_rel[index]),
            ("kl_mean", table.kl_mean.get(index).copied().unwrap_or(0.0)),
            ("kl_max", table.kl_max.get(index).copied().unwrap_or(0.0)),
            ("flips", table.flips.get(index).copied().unwrap_or(0) as f64),
            ("flip_margin", table.flip_margin.get(index).copied().unwrap_or(0.0)),
        ] {
            let wanted = columns[&column.to_string()][figure].as_f64().unwrap();
            // Four significant digits are kept.
            let within = 6e-4 * wanted.abs() + 1e-12;
            assert!((value - wanted).abs() <= within, "{name}: {figure} of column {column} is {value}; numpy says {wanted}");
        }
    }
}

#[test]
fn the_worst_place_is_the_largest_difference_or_the_first_value_that_is_not_finite() {
    let mut meter = Meter::default();
    let place = |row| Place { row, column: 7 };
    meter.add_logits(place(0), &[1.0, 2.0], &[1.0, 2.5]);
    meter.add_logits(place(1), &[1.0, 2.0], &[1.0, 5.0]);
    assert_eq!(meter.finish().worst, Some(place(1)));
    meter.add_logits(place(2), &[1.0, 2.0], &[f32::NAN, 2.0]);
    meter.add_logits(place(3), &[1.0, 2.0], &[1.0, 90.0]);
    let metrics = meter.finish();
    assert_eq!((metrics.worst, metrics.max_abs, metrics.nonfinite), (Some(place(2)), 88.0, 1));
}

#[test]
fn merging_keeps_the_worst_and_adds_positions_up() {
    let meter = |candidate: &[f32]| {
        let mut meter = Meter::default();
        meter.add_logits(Place { row: 0, column: 0 }, &[0.0, 1.0, 3.0], candidate);
        meter.finish()
    };
    let (good, bad, nan) = (meter(&[0.0, 1.0, 3.0]), meter(&[3.0, 1.0, 0.0]), meter(&[f32::NAN, 1.0, 3.0]));
    let mut sum = good.clone();
    assert!(sum.merge(&bad), "the second is worse");
    assert_eq!((sum.positions, sum.max_abs, sum.top1_agreement, sum.decided(0.0).1), (2, 3.0, Some(0.0), 1));
    assert_eq!(sum.kl_max, bad.kl_max);
    assert!(!sum.merge(&good), "the third is not");
    assert!(sum.merge(&nan), "what is not finite outweighs any difference");
    assert_eq!((sum.positions, sum.nonfinite), (4, 1));
}
