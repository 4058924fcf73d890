//! Figures by layer and block.

use super::figure;
use crate::report::figures::figure as number;
use crate::report::html::Html;
use crate::report::scale::{Log, power};
use crate::report::svg::{dot, drawing, line, path, words};

/// A block of a layer, in the order of computation.
#[derive(Debug, Clone)]
pub(in crate::report) struct Place {
    /// `None` before the first layer and after the last.
    pub(in crate::report) layer: Option<usize>,
    pub(in crate::report) block: String,
    pub(in crate::report) figure: f64,
}

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 168.0;
const LEFT: f64 = 36.0;
const RIGHT: f64 = 350.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 144.0;

/// A dot a block, a line through those of one kind; what is beyond `limit` is marked.
pub(in crate::report) fn layers(title: &str, note: &str, limit: Option<f64>, limit_name: &'static str, places: &[Place]) -> Html {
    if places.is_empty() {
        return Html::default();
    }
    let up = Log::around(places.iter().map(|place| place.figure).chain(limit), BOTTOM, TOP);
    let count = places.iter().filter_map(|place| place.layer).max().map_or(1, |layer| layer + 1);
    // Layer 0 has a place of its own beside what comes before it.
    let step = (RIGHT - LEFT) / (count + 2) as f64;
    let across = |index: usize, place: &Place| match place.layer {
        Some(layer) => LEFT + step * (layer as f64 + 1.5),
        None if index == 0 => LEFT + step / 2.0,
        None => RIGHT - step / 2.0,
    };
    let mut marks = Html::default();
    for exponent in up.ticks(6) {
        let y = up.at(10f64.powi(exponent));
        marks = marks.then(line("grid", [LEFT, y], [RIGHT, y])).then(words("tick", "end", [LEFT - 4.0, y + 3.5], &power(exponent)));
    }
    for layer in (0..count).step_by(count.div_ceil(8)) {
        marks = marks.then(words("tick", "middle", [LEFT + step * (layer as f64 + 1.5), BOTTOM + 14.0], &layer.to_string()));
    }
    if let Some(limit) = limit {
        marks = marks.then(line("limit", [LEFT, up.at(limit)], [RIGHT, up.at(limit)]));
    }
    let mut blocks: Vec<&str> = Vec::new();
    for place in places.iter().filter(|place| place.layer.is_some()) {
        if !blocks.contains(&place.block.as_str()) {
            blocks.push(&place.block);
        }
    }
    let series = ["series-a", "series-b", "series-c"];
    let of =
        |block: &str| blocks.iter().position(|other| *other == block).and_then(|index| series.get(index)).copied().unwrap_or("series-d");
    for block in &blocks {
        let line: Vec<[f64; 2]> = places
            .iter()
            .enumerate()
            .filter(|(_, place)| place.block == *block)
            .map(|(index, place)| [across(index, place), up.at(place.figure)])
            .collect();
        marks = marks.then(path(&format!("line {}", of(block)), &line));
    }
    for (index, place) in places.iter().enumerate() {
        let beyond = limit.is_some_and(|limit| place.figure > limit || place.figure.is_nan());
        let class = if beyond { "bad" } else { of(&place.block) };
        let layer = place.layer.map(|layer| format!("layer {layer}, ")).unwrap_or_default();
        let said = format!("{layer}{}: {}", place.block, number(place.figure));
        marks =
            marks.then(dot(&format!("mark {class}"), [across(index, place), up.at(place.figure)], if beyond { 3.2 } else { 2.0 }, &said));
    }
    let mut key: Vec<(&'static str, &'static str)> = blocks.iter().filter_map(|block| Some((of(block), known(block)?))).collect();
    if limit.is_some() {
        key.push(("limit", limit_name));
    }
    figure(title, note, &key, drawing(WIDTH, HEIGHT, title, marks))
}

/// Names that a key may hold.
fn known(block: &str) -> Option<&'static str> {
    ["self_attn", "mlp", "residual"].into_iter().find(|known| *known == block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_limit_is_marked_by_name() {
        let place = |layer, block: &str, figure| Place { layer, block: block.to_owned(), figure };
        assert!(layers("t", "n", None, "l", &[]).is_empty());
        let places =
            [place(None, "embedding", 1.0), place(Some(0), "mlp", 10.0), place(Some(1), "mlp", 1e5), place(None, "<head>", f64::INFINITY)];
        let html = layers("t", "n", Some(65504.0), "fp16", &places).into_string();
        assert_eq!(html.matches("\"mark bad\"").count(), 2);
        assert!(html.contains("<title>layer 1, mlp: 1.0e5</title>") && html.contains("&lt;head&gt;"), "{html}");
    }
}
