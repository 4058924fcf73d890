//! The drawings of the page, each from plain figures.

mod histogram;
mod layers;
mod margins;
mod positions;
mod ratios;

pub(super) use histogram::{Bin, histogram};
pub(super) use layers::{Place, layers};
pub(super) use margins::{Margin, Row, margins};
pub(super) use positions::{Panel, positions};
pub(super) use ratios::{Ratio, ratios, times};

use super::html::{Html, classed, plain};

/// Where marks begin so that the longest of `names` has room before them.
fn room<'a>(names: impl Iterator<Item = &'a str>) -> f64 {
    let longest = names.map(|name| name.chars().count()).max().unwrap_or_default();
    (longest as f64 * 6.4 + 10.0).clamp(50.0, 150.0)
}

/// A drawing with its title, a sentence on how to read it, and the marks' meanings.
fn figure(title: &str, note: &str, key: &[(&'static str, &'static str)], drawing: Html) -> Html {
    let entry = |(class, meaning): &(&'static str, &'static str)| {
        plain("li", classed("span", &format!("swatch {class}"), Html::default()).then(*meaning))
    };
    let key: Html = key.iter().map(entry).collect();
    let key = if key.is_empty() { key } else { classed("ul", "key", key) };
    let caption = plain("h4", title).then(classed("p", "soft", note)).then(key);
    plain("figure", plain("figcaption", caption).then(drawing))
}
