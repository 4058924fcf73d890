//! Drawings: inline, without a font, a colour or a script of their own. Classes say what a mark is; the style sheet says how it looks.

use std::fmt::{self, Display};

use super::html::{Attributes, Html, element};

/// A coordinate, to a tenth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Px(pub(super) f64);

impl Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = (self.0 * 10.0).round() / 10.0;
        write!(f, "{}", if rounded == 0.0 { 0.0 } else { rounded })
    }
}

/// A drawing that scales with the page; `label` is read to those who do not see it.
pub(super) fn drawing(width: f64, height: f64, label: &str, content: Html) -> Html {
    let view = format!("0 0 {} {}", Px(width), Px(height));
    element("svg", &[("viewBox", &view), ("role", &"img"), ("aria-label", &label)], content)
}

/// A line from one place to another.
pub(super) fn line(class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) -> Html {
    element("line", &[("class", &class), ("x1", &Px(x1)), ("y1", &Px(y1)), ("x2", &Px(x2)), ("y2", &Px(y2))], Html::default())
}

/// Places joined in their order.
pub(super) fn path(class: &str, places: &[[f64; 2]]) -> Html {
    element("path", &[("class", &class), ("d", &joined(places))], Html::default())
}

/// What lies between places joined in their order and `base` below them.
pub(super) fn area(class: &str, places: &[[f64; 2]], base: f64) -> Html {
    let (Some(first), Some(last)) = (places.first(), places.last()) else { return Html::default() };
    let whole = [&[[first[0], base]], places, &[[last[0], base]]].concat();
    element("path", &[("class", &class), ("d", &joined(&whole))], Html::default())
}

fn joined(places: &[[f64; 2]]) -> String {
    let step = |(index, [x, y]): (usize, &[f64; 2])| format!("{}{} {}", if index == 0 { "M" } else { "L" }, Px(*x), Px(*y));
    places.iter().enumerate().map(step).collect()
}

/// A filled box with words that a pointer shows.
pub(super) fn bar(class: &str, [x, y]: [f64; 2], [width, height]: [f64; 2], words: &str) -> Html {
    let (width, height) = (width.max(0.0), height.max(0.0));
    let attributes: Attributes<'_> =
        &[("class", &class), ("x", &Px(x)), ("y", &Px(y)), ("width", &Px(width)), ("height", &Px(height)), ("rx", &"1.5")];
    element("rect", attributes, title(words))
}

/// A dot with words that a pointer shows.
pub(super) fn dot(class: &str, [x, y]: [f64; 2], radius: f64, words: &str) -> Html {
    element("circle", &[("class", &class), ("cx", &Px(x)), ("cy", &Px(y)), ("r", &Px(radius))], title(words))
}

fn title(words: &str) -> Html {
    if words.is_empty() { Html::default() } else { element("title", &[], words) }
}

/// Words at a place; `anchor` is `start`, `middle` or `end`.
pub(super) fn words(class: &str, anchor: &'static str, [x, y]: [f64; 2], text: &str) -> Html {
    element("text", &[("class", &class), ("text-anchor", &anchor), ("x", &Px(x)), ("y", &Px(y))], text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_written_to_a_tenth() {
        assert_eq!([0.04, -0.04, 1.25, 3.0].map(|x| Px(x).to_string()), ["0", "0", "1.3", "3"]);
        let html = area("floor", &[[1.0, 2.0], [3.0, 4.0]], 9.0).into_string();
        assert_eq!(html, "<path class=\"floor\" d=\"M1 9L1 2L3 4L3 9\"></path>");
        assert!(area("floor", &[], 9.0).is_empty());
        assert_eq!(bar("good", [0.0; 2], [-1.0, 2.0], "<").into_string().matches("width=\"0\"").count(), 1);
    }
}
