use super::*;

#[test]
fn a_nan_figure_is_outside() {
    let metrics = Metrics { max_rel: f64::NAN, positions: 1, ..Metrics::default() };
    assert_eq!(Tolerance::of(Precision::Bf16).failures(&metrics), ["max_rel NaN exceeds 1.2e1"]);
    assert_eq!(Tolerance::of(Precision::Bf16).failures(&Metrics::default()), ["nothing was compared"]);
}
