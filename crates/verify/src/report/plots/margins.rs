//! Flips by the source's margin: which of them rounding may decide.

use super::{figure, room};
use crate::report::html::Html;
use crate::report::scale::{Log, power};
use crate::report::svg::{dot, drawing, line, words};

/// The flips of one check.
#[derive(Debug, Clone)]
pub(in crate::report) struct Row {
    pub(in crate::report) name: String,
    /// The margin beyond which the check counts a flip.
    pub(in crate::report) decided: f64,
    pub(in crate::report) flips: Vec<Margin>,
}

/// One flip.
#[derive(Debug, Clone)]
pub(in crate::report) struct Margin {
    /// In deviations.
    pub(in crate::report) margin: f64,
    /// What a pointer shows.
    pub(in crate::report) said: String,
}

const WIDTH: f64 = 360.0;
const ROW: f64 = 19.0;
const RIGHT: f64 = 346.0;

/// A row a check that has any flip; nothing where none has.
pub(in crate::report) fn margins(rows: &[Row]) -> Html {
    let drawn: Vec<&Row> = rows.iter().filter(|row| !row.flips.is_empty()).collect();
    if drawn.is_empty() {
        return Html::default();
    }
    let figures = drawn.iter().flat_map(|row| row.flips.iter().map(|flip| flip.margin).chain([row.decided]));
    let left = room(drawn.iter().map(|row| row.name.as_str()));
    let scale = Log::around(figures, left, RIGHT);
    let bottom = ROW * drawn.len() as f64 + 4.0;
    let mut marks = Html::default();
    for exponent in scale.ticks(6) {
        let x = scale.at(10f64.powi(exponent));
        marks = marks.then(line("grid", [x, 2.0], [x, bottom])).then(words("tick", "middle", [x, bottom + 13.0], &power(exponent)));
    }
    for (index, row) in drawn.iter().enumerate() {
        let y = ROW * index as f64 + 12.0;
        marks = marks.then(words("name", "end", [left - 6.0, y + 3.5], &row.name));
        let x = scale.at(row.decided);
        marks = marks.then(line("limit", [x, y - 8.0], [x, y + 8.0]));
        for flip in &row.flips {
            let state = if flip.margin > row.decided { "mark bad" } else { "mark tie" };
            marks = marks.then(dot(state, [scale.at(flip.margin), y], 3.2, &flip.said));
        }
    }
    let note = "Positions with another first choice, by how far the source's first logit leads its second, in deviations.";
    let key = [("tie", "rounding may decide it"), ("bad", "counts as a fault"), ("limit", "where that begins")];
    figure("Margins of flips", note, &key, drawing(WIDTH, bottom + 18.0, "Margins of flips by check", marks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flip_beyond_the_margin_is_a_fault() {
        let row = |name: &str, margins: &[f64]| Row {
            name: name.to_owned(),
            decided: 1e-3,
            flips: margins.iter().map(|&margin| Margin { margin, said: format!("<{margin}>") }).collect(),
        };
        assert!(margins(&[row("none", &[])]).is_empty());
        let html = margins(&[row("none", &[]), row("decode", &[1e-4, 1e-3, 1e-2])]).into_string();
        assert!(!html.contains("none"));
        assert_eq!((html.matches("\"mark tie\"").count(), html.matches("\"mark bad\"").count()), (2, 1));
        assert!(html.contains("&lt;0.01&gt;"));
    }
}
