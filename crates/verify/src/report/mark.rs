//! Outcomes as marks: a sign, a word and a colour, so that none of them is needed.

use super::html::{Html, classed, element};
use crate::verdict::Outcome;

fn sign(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Agree => "✓",
        Outcome::Disagree => "✗",
        Outcome::NotExecuted => "◌",
        Outcome::Error => "!",
    }
}

/// As in `verdict.json`, with spaces.
pub(super) fn words(outcome: Outcome) -> String {
    outcome.name().replace('_', " ")
}

pub(super) fn outcome_of(passed: bool) -> Outcome {
    if passed { Outcome::Agree } else { Outcome::Disagree }
}

/// In a line of text or a table.
pub(super) fn status(outcome: Outcome) -> Html {
    mark("status", outcome)
}

/// Beside a heading.
pub(super) fn badge(outcome: Outcome) -> Html {
    mark("badge", outcome)
}

fn mark(kind: &str, outcome: Outcome) -> Html {
    let sign = element("span", &[("aria-hidden", &"true")], sign(outcome));
    classed("span", &format!("{kind} {}", outcome.name()), sign.then(" ").then(words(outcome)))
}
