//! Divergences by magnitude.

use super::figure;
use crate::report::html::Html;
use crate::report::scale::Linear;
use crate::report::svg::{bar, drawing, line, words};

/// A decade, or what lies below or above all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::report) struct Bin {
    /// From where on, as the axis has it; empty below the first.
    pub(in crate::report) from: String,
    /// Positions of checks that passed.
    pub(in crate::report) good: usize,
    /// Positions of checks that failed.
    pub(in crate::report) bad: usize,
}

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 168.0;
const LEFT: f64 = 14.0;
const RIGHT: f64 = 350.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 146.0;

/// Bars from the first to the last bin that has anything.
pub(in crate::report) fn histogram(bins: &[Bin]) -> Html {
    let full = |bin: &Bin| bin.good + bin.bad > 0;
    let (Some(first), Some(last)) = (bins.iter().position(full), bins.iter().rposition(full)) else { return Html::default() };
    // A bin on each side, where there is one, shows that nothing lies beyond.
    let shown = &bins[first.saturating_sub(1)..(last + 2).min(bins.len())];
    let most = shown.iter().map(|bin| bin.good + bin.bad).max().unwrap_or_default();
    let up = Linear::up_to(most as f64, 0.0, BOTTOM - TOP);
    let step = (RIGHT - LEFT) / shown.len() as f64;
    let every = shown.len().div_ceil(8);
    let mut marks = line("axis", [LEFT, BOTTOM], [RIGHT, BOTTOM]);
    for (index, bin) in shown.iter().enumerate() {
        let x = LEFT + step * index as f64;
        let (good, bad) = (up.at(bin.good as f64), up.at(bin.bad as f64));
        let from = if bin.from.is_empty() { String::new() } else { format!(", from {} on", bin.from) };
        let said = |count: usize, which: &str| format!("{count} positions of checks that {which}{from}");
        let (width, inner) = (step - 3.0, x + 1.5);
        if bin.good > 0 {
            marks = marks.then(bar("bar good", [inner, BOTTOM - good.max(1.0)], [width, good.max(1.0)], &said(bin.good, "agree")));
        }
        if bin.bad > 0 {
            marks = marks.then(bar("bar bad", [inner, BOTTOM - good - bad.max(1.0)], [width, bad.max(1.0)], &said(bin.bad, "differ")));
        }
        if full(bin) && step > 16.0 {
            let total = (bin.good + bin.bad).to_string();
            marks = marks.then(words("value", "middle", [x + step / 2.0, BOTTOM - good - bad - 4.0], &total));
        }
        if index % every == 0 && !bin.from.is_empty() {
            marks = marks.then(words("tick", "middle", [x, BOTTOM + 14.0], &bin.from));
        }
    }
    let note = "Positions by KL(source‖candidate), in nats, a bar a decade.";
    let key: &[_] = if bins.iter().any(|bin| bin.bad > 0) { &[("good", "checks that agree"), ("bad", "checks that differ")] } else { &[] };
    figure("Divergence", note, key, drawing(WIDTH, HEIGHT, "Histogram of KL divergences", marks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_there_are_positions() {
        let bin = |from: &str, good, bad| Bin { from: from.to_owned(), good, bad };
        assert!(histogram(&[bin("", 0, 0), bin("1e-9", 0, 0)]).is_empty());
        let html = histogram(&[bin("", 0, 0), bin("1e-9", 30, 10), bin("1e-8", 20, 0), bin("1e-7", 0, 0), bin("1e-6", 0, 0)]).into_string();
        // 40 positions are 128 high.
        assert!(html.contains("y=\"50\" width=\"81\" height=\"96\"") && html.contains("y=\"18\" width=\"81\" height=\"32\""), "{html}");
        assert!(html.contains("y=\"82\" width=\"81\" height=\"64\""), "{html}");
        assert!(html.contains(">40<") && !html.contains("1e-6"), "{html}");
    }
}
