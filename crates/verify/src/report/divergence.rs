//! Where inside a candidate it first leaves its source.

use super::html::{Html, classed, plain};
use crate::verdict::FirstDivergence;

pub(super) fn divergence(first: &FirstDivergence) -> Html {
    let place = format!("layer {}, {}", first.layer, first.block);
    classed("div", "divergence", plain("h3", "First divergence").then(classed("p", "place", place)))
}
