//! Range audit: how large activations get, and what 16 bits hold.

use super::figures::figure;
use super::html::{Html, classed, plain};
use super::plots::{Place, layers};
use crate::verdict::{LayerPeaks, Verdict};

/// The largest finite fp16 number.
const FP16: f64 = 65504.0;

pub(super) fn ranges(verdict: &Verdict) -> Html {
    let Some(peaks) = verdict.ranges.as_ref().filter(|peaks| !peaks.is_empty()) else { return Html::default() };
    let places: Vec<Place> = peaks.iter().enumerate().flat_map(|(layer, peaks)| blocks(layer, peaks)).collect();
    let at = |place: &Place| format!("layer {}, {}", place.layer.unwrap_or_default(), place.block);
    let largest = places.iter().max_by(|one, other| one.figure.total_cmp(&other.figure));
    let beyond = places.iter().find(|place| place.figure > FP16 || place.figure.is_nan());
    let mut said = largest.map(|place| format!("The largest activation of the source is {}, in {}. ", figure(place.figure), at(place)));
    if let Some(said) = &mut said {
        said.push_str(&match beyond {
            Some(place) => format!("fp16 holds up to 65,504: the first block beyond is {}, at {}.", at(place), figure(place.figure)),
            None => "fp16, which holds up to 65,504, holds all of them; bf16 has the range of fp32.".to_owned(),
        });
    }
    let title = "Largest activation by layer";
    let drawing = layers(
        title,
        "Largest magnitude that each block of the reference gave, over all prompts.",
        Some(FP16),
        "largest fp16 number",
        &places,
    );
    let body =
        plain("h2", "Range audit").then(classed("p", "sentence", said.unwrap_or_default())).then(classed("div", "drawings", drawing));
    classed("section", "card", body)
}

fn blocks(layer: usize, peaks: &LayerPeaks) -> [Place; 3] {
    let place = |block: &str, figure| Place { layer: Some(layer), block: block.to_owned(), figure };
    [place("self_attn", peaks.self_attn), place("mlp", peaks.mlp), place("residual", peaks.residual)]
}
