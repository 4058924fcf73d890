//! Error by position: a panel a check, all on one scale.

use super::figure;
use crate::report::figures::figure as number;
use crate::report::html::{Html, classed};
use crate::report::scale::{Linear, Log, power};
use crate::report::svg::{area, dot, drawing, line, path, words};

/// One check.
#[derive(Debug, Clone, Default)]
pub(in crate::report) struct Panel {
    pub(in crate::report) name: String,
    pub(in crate::report) passed: bool,
    /// Columns, rising.
    pub(in crate::report) columns: Vec<usize>,
    /// Largest error of each.
    pub(in crate::report) error: Vec<f64>,
    /// What rounding alone makes of it; empty where that is not known.
    pub(in crate::report) floor: Vec<f64>,
    /// What the check as a whole was held to.
    pub(in crate::report) limit: Option<f64>,
    /// Columns where a largest logit is at another entry, with the largest margin.
    pub(in crate::report) flips: Vec<(usize, f64)>,
}

const WIDTH: f64 = 150.0;
const HEIGHT: f64 = 100.0;
const LEFT: f64 = 30.0;
const RIGHT: f64 = 148.0;
const TOP: f64 = 6.0;
const BOTTOM: f64 = 84.0;

/// All panels; nothing where no check has positions.
pub(in crate::report) fn positions(title: &str, panels: &[Panel]) -> Html {
    let drawn: Vec<&Panel> = panels.iter().filter(|panel| !panel.columns.is_empty()).collect();
    if drawn.is_empty() {
        return Html::default();
    }
    let figures = drawn.iter().flat_map(|panel| panel.error.iter().chain(&panel.floor).copied().chain(panel.limit));
    let scale = Log::around(figures, BOTTOM, TOP);
    let last = drawn.iter().filter_map(|panel| panel.columns.last()).max().copied().unwrap_or_default();
    let all: Html = drawn.iter().map(|panel| draw(panel, scale, last)).collect();
    let mut key = vec![("line", "largest error, in deviations")];
    if drawn.iter().any(|panel| !panel.floor.is_empty()) {
        key.push(("floor", "rounding alone"));
    }
    if drawn.iter().any(|panel| panel.limit.is_some()) {
        key.push(("limit", "limit of the check"));
    }
    if drawn.iter().any(|panel| !panel.flips.is_empty()) {
        key.push(("flip", "another first choice"));
    }
    let note = "Largest difference of any logit at a column, over the deviation of the source's logits. One scale for all.";
    classed("div", "wide", figure(title, note, &key, classed("div", "panels", all)))
}

fn draw(panel: &Panel, scale: Log, last: usize) -> Html {
    let across = Linear::up_to(last as f64, LEFT, RIGHT);
    let place = |(column, figure): (&usize, &f64)| [across.at(*column as f64), scale.at(*figure)];
    let error: Vec<[f64; 2]> = panel.columns.iter().zip(&panel.error).map(place).collect();
    let floor: Vec<[f64; 2]> = panel.columns.iter().zip(&panel.floor).map(place).collect();
    // What was not compared is no line: only neighbours are joined.
    let runs: Vec<usize> = panel.columns.chunk_by(|column, next| column + 1 == *next).map(<[usize]>::len).collect();
    let mut marks: Html = pieces(&floor, &runs).into_iter().map(|piece| area("floor", &widened(piece), BOTTOM)).collect();
    for exponent in scale.ticks(6) {
        let y = scale.at(10f64.powi(exponent));
        marks = marks.then(line("grid", [LEFT, y], [RIGHT, y])).then(words("tick", "end", [LEFT - 4.0, y + 3.5], &power(exponent)));
    }
    marks =
        marks.then(words("tick", "start", [LEFT, HEIGHT - 5.0], "0")).then(words("tick", "end", [RIGHT, HEIGHT - 5.0], &last.to_string()));
    if let Some(limit) = panel.limit {
        let y = scale.at(limit);
        marks = marks.then(line("limit", [LEFT, y], [RIGHT, y]));
    }
    let state = if panel.passed { "good" } else { "bad" };
    for piece in pieces(&error, &runs) {
        marks = marks.then(match piece {
            [only] => dot(&format!("mark {state}"), *only, 2.0, ""),
            _ => path(&format!("line {state}"), piece),
        });
    }
    for (column, margin) in &panel.flips {
        let at = panel.columns.iter().position(|other| other == column).and_then(|index| error.get(index));
        let said = format!("column {column}: another first choice, the source's margin is {} deviations", number(*margin));
        marks = marks.then(at.map(|at| dot("flip", *at, 2.6, &said)).unwrap_or_default());
    }
    let worst = panel.error.iter().copied().fold(0.0, f64::max);
    let label = format!("{}: largest error {} over columns 0 to {last}", panel.name, number(worst));
    let heading = classed("p", "panel-name", panel.name.as_str()).then(classed("p", &format!("panel-worst {state}"), number(worst)));
    classed("div", "panel", classed("div", "panel-head", heading).then(drawing(WIDTH, HEIGHT, &label, marks)))
}

/// `places` cut into pieces of these lengths; as far as there are places.
fn pieces<'a>(places: &'a [[f64; 2]], lengths: &[usize]) -> Vec<&'a [[f64; 2]]> {
    let mut rest = places;
    let mut pieces = Vec::new();
    for length in lengths {
        let (piece, after) = rest.split_at((*length).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// A single place made wide enough to be seen.
fn widened(places: &[[f64; 2]]) -> Vec<[f64; 2]> {
    match places {
        [[x, y]] => vec![[x - 2.0, *y], [x + 2.0, *y]],
        _ => places.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_without_positions_are_left_out_and_the_scale_is_shared() {
        let panel = |name: &str, error: Vec<f64>| Panel {
            name: name.to_owned(),
            columns: (0..error.len()).collect(),
            error,
            limit: Some(1e-4),
            ..Panel::default()
        };
        assert!(positions("t", &[panel("empty", vec![])]).is_empty());
        let html =
            positions("t", &[panel("<one>", vec![1e-6, 1e-5, 1e-6]), panel("two", vec![1e-5]), panel("empty", vec![])]).into_string();
        assert_eq!(html.matches("<svg").count(), 2);
        assert!(html.contains("&lt;one&gt;") && !html.contains("<one>") && !html.contains("empty"));
        // 1e-6 at the bottom, 1e-4 at the top of both.
        // Columns 0 and 1 are neighbours, 5 stands alone.
        let apart = Panel { columns: vec![0, 1, 5], ..panel("apart", vec![1e-6; 3]) };
        let apart = positions("t", &[apart]).into_string();
        assert_eq!((apart.matches("<path class=\"line").count(), apart.matches("<circle").count()), (1, 1), "{apart}");
        assert!(html.contains("d=\"M30 84L89 45L148 84\"") && html.contains("cx=\"30\" cy=\"45\""), "{html}");
    }
}
