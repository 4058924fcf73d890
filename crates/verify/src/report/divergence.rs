//! Where inside a candidate it first leaves its source.

use super::figures::figure;
use super::html::{Html, classed, plain, prose};
use super::plots::{Place, layers};
use super::table::{Heading, Line, table};
use crate::Stats;
use crate::verdict::{FirstDivergence, PlaceError};

const HEADINGS: [Heading; 5] = [
    Heading::text("values there", ""),
    Heading::number("mean", ""),
    Heading::number("deviation", ""),
    Heading::number("largest", "largest magnitude"),
    Heading::number("not finite", "values that are NaN or infinite"),
];

/// A paragraph, the values of both sides, likely causes, and the error along the graph.
pub(super) fn divergence(first: &FirstDivergence) -> Html {
    let mut place = classed("b", "place", at(first.layer, &first.block));
    if let Some(run) = &first.run {
        place = place.then(", in ").then(prose(run));
    }
    if let Some(max_rel) = first.max_rel {
        place = place.then(format!(": largest difference {} deviations", figure(max_rel)));
    }
    let mut body = plain("h3", "First divergence").then(plain("p", place));
    if let Some(value) = &first.value {
        body = body.then(classed("p", "soft", Html::text("value ").then(plain("code", value.as_str()))));
    }
    let sides = [("source", &first.source), ("candidate", &first.candidate)];
    let lines = sides.into_iter().filter_map(|(side, stats)| stats.as_ref().map(|stats| line(side, stats)));
    body = body.then(table(&HEADINGS, lines.collect()));
    let hints: Html = first.cause_hints.iter().map(|hint| plain("li", prose(hint))).collect();
    if !hints.is_empty() {
        body = body.then(classed("p", "soft", "likely causes")).then(plain("ul", hints));
    }
    classed("div", "divergence", body).then(trace(first))
}

fn at(layer: Option<usize>, block: &str) -> String {
    layer.map_or_else(|| block.to_owned(), |layer| format!("layer {layer}, {block}"))
}

fn line(side: &'static str, stats: &Stats) -> Line {
    let cells = vec![
        side.into(),
        format!("{:.3e}", stats.mean).into(),
        format!("{:.3e}", stats.std).into(),
        format!("{:.3e}", stats.max).into(),
        stats.nonfinite.to_string().into(),
    ];
    Line { cells, note: Html::default() }
}

fn trace(first: &FirstDivergence) -> Html {
    let place = |PlaceError { layer, block, error }: &PlaceError| Place {
        layer: *layer,
        block: block.clone(),
        figure: error.unwrap_or(f64::INFINITY),
    };
    let places: Vec<Place> = first.trace.iter().map(place).collect();
    let note = "Of each block's value: length of the difference over length of the source's vector, the worst token.";
    let drawing = layers("Error by layer", note, first.limit, "counts as different", &places);
    if drawing.is_empty() { drawing } else { classed("div", "drawings", drawing) }
}
