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
            meter.add_logits(Place { row, column: 0 }, source, candidate);
        }
        let found = meter.finish(case["margin"].as_f64().unwrap());
        let wanted = &case["expected"];
        for (figure, value) in [
            ("positions", Some(found.positions as f64)),
            ("nonfinite", Some(found.nonfinite as f64)),
            ("decided", Some(found.decided as f64)),
            ("decided_flips", Some(found.decided_flips as f64)),
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
    }
}

#[test]
fn the_worst_place_is_the_largest_difference_or_the_first_value_that_is_not_finite() {
    let mut meter = Meter::default();
    let place = |row| Place { row, column: 7 };
    meter.add_logits(place(0), &[1.0, 2.0], &[1.0, 2.5]);
    meter.add_logits(place(1), &[1.0, 2.0], &[1.0, 5.0]);
    assert_eq!(meter.finish(0.0).worst, Some(place(1)));
    meter.add_logits(place(2), &[1.0, 2.0], &[f32::NAN, 2.0]);
    meter.add_logits(place(3), &[1.0, 2.0], &[1.0, 90.0]);
    let metrics = meter.finish(0.0);
    assert_eq!((metrics.worst, metrics.max_abs, metrics.nonfinite), (Some(place(2)), 88.0, 1));
}

#[test]
fn merging_keeps_the_worst_and_adds_positions_up() {
    let meter = |candidate: &[f32]| {
        let mut meter = Meter::default();
        meter.add_logits(Place { row: 0, column: 0 }, &[0.0, 1.0, 3.0], candidate);
        meter.finish(0.0)
    };
    let (good, bad, nan) = (meter(&[0.0, 1.0, 3.0]), meter(&[3.0, 1.0, 0.0]), meter(&[f32::NAN, 1.0, 3.0]));
    let mut sum = good.clone();
    assert!(sum.merge(&bad), "the second is worse");
    assert_eq!((sum.positions, sum.max_abs, sum.top1_agreement, sum.decided_flips), (2, 3.0, Some(0.0), 1));
    assert_eq!(sum.kl_max, bad.kl_max);
    assert!(!sum.merge(&good), "the third is not");
    assert!(sum.merge(&nan), "what is not finite outweighs any difference");
    assert_eq!((sum.positions, sum.nonfinite), (4, 1));
}
