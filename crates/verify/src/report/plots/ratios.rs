//! Error over floor, a bar a check.

use super::{figure, room};
use crate::report::html::Html;
use crate::report::scale::{Log, power};
use crate::report::svg::{bar, drawing, line, words};

/// One check.
#[derive(Debug, Clone)]
pub(in crate::report) struct Ratio {
    pub(in crate::report) name: String,
    pub(in crate::report) passed: bool,
    /// Error over floor; infinite where the candidate is not finite.
    pub(in crate::report) ratio: f64,
}

const WIDTH: f64 = 360.0;
const ROW: f64 = 19.0;
const RIGHT: f64 = 314.0;

/// Bars from 1, the floor itself; `limit` is the factor that checks are held to, where all are held to one. `over` names what 1 stands for.
pub(in crate::report) fn ratios(title: &str, note: &str, bars: &[Ratio], limit: Option<f64>) -> Html {
    if bars.is_empty() {
        return Html::default();
    }
    let left = room(bars.iter().map(|bar| bar.name.as_str()));
    let scale = Log::around(bars.iter().map(|bar| bar.ratio).chain(limit).chain([1.0]), left, RIGHT);
    let bottom = ROW * bars.len() as f64 + 4.0;
    let mut marks = Html::default();
    for exponent in scale.ticks(6) {
        let x = scale.at(10f64.powi(exponent));
        marks = marks.then(line("grid", [x, 2.0], [x, bottom])).then(words("tick", "middle", [x, bottom + 13.0], &power(exponent)));
    }
    for (index, each) in bars.iter().enumerate() {
        let y = ROW * index as f64 + 5.0;
        let (one, end) = (scale.at(1.0), scale.at(each.ratio));
        let said = format!("{}: {}", each.name, times(each.ratio));
        let state = if each.passed { "good" } else { "bad" };
        let width = (end - one).abs().max(1.5);
        marks = marks
            .then(words("name", "end", [left - 6.0, y + 9.5], &each.name))
            .then(bar(&format!("bar {state}"), [one.min(end), y], [width, ROW - 7.0], &said))
            .then(words("value", "start", [one.max(end) + 4.0, y + 9.5], &times(each.ratio)));
    }
    let one = scale.at(1.0);
    marks = marks.then(line("axis", [one, 2.0], [one, bottom]));
    if let Some(limit) = limit {
        let x = scale.at(limit);
        marks = marks.then(line("limit", [x, 2.0], [x, bottom]));
    }
    let key: &[_] = if limit.is_some() { &[("limit", "limit")] } else { &[] };
    figure(title, note, key, drawing(WIDTH, bottom + 18.0, title, marks))
}

/// `1.2×`.
pub(in crate::report) fn times(ratio: f64) -> String {
    match ratio {
        _ if !ratio.is_finite() => "not finite".to_owned(),
        _ if ratio >= 1e4 => format!("{ratio:.0e}×"),
        _ if ratio >= 100.0 => format!("{ratio:.0}×"),
        _ if ratio >= 10.0 => format!("{ratio:.1}×"),
        _ => format!("{ratio:.2}×"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_start_at_the_floor_on_both_sides() {
        assert!(ratios("t", "n", &[], None).is_empty());
        let of = |name: &str, ratio: f64| Ratio { name: name.to_owned(), passed: ratio < 8.0, ratio };
        let html = ratios("t", "n", &[of("under", 0.1), of("over", 10.0), of("none", f64::INFINITY)], Some(8.0)).into_string();
        // From 0.1 to 10: 1 is in the middle, at 182.
        assert!(html.contains("<rect class=\"bar good\" x=\"50\" y=\"5\" width=\"132\""), "{html}");
        assert!(html.contains("<rect class=\"bar bad\" x=\"182\" y=\"24\" width=\"132\""), "{html}");
        assert!(html.contains(">10.0×<") && html.contains(">0.10×<") && html.contains(">not finite<"), "{html}");
    }
}
