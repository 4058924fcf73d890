//! The first screen: what it came to, and every candidate in a line.

use super::figures::{count, figure, figure_or_none, share};
use super::html::{Html, classed, element, plain, prose};
use super::mark::{badge, status, words};
use super::plots::times;
use super::table::{Heading, Line, table};
use crate::label::dtype_label;
use crate::verdict::{CandidateVerdict, Check, Oracle, Verdict};

/// Outcome, oracle sentence and figures of the run.
pub(super) fn banner(verdict: &Verdict) -> Html {
    let oracle = match verdict.oracle {
        Oracle::Golden => "golden",
        Oracle::Reference => "reference",
        Oracle::Both => "reference and golden",
    };
    let checks = || verdict.candidates.iter().flat_map(|candidate| &candidate.checks);
    let passed = checks().filter(|check| check.passed).count();
    let mut facts = vec![
        ("candidates", count(verdict.candidates.len())),
        ("executed", count(verdict.executed)),
        ("checks passed", format!("{} of {}", count(passed), count(checks().count()))),
        ("oracle", oracle.to_owned()),
    ];
    if let Some(worst) = worst_ratio(checks()) {
        facts.push(("worst error ÷ floor", times(worst)));
    }
    let facts: Html = facts.into_iter().map(|(name, value)| plain("div", plain("dt", name).then(plain("dd", value)))).collect();
    let title = plain("h1", verdict.source.path.as_str());
    let head = classed("div", "head", title.then(badge(verdict.verdict)));
    let sentence = classed("p", "sentence", prose(&verdict.conclusion()));
    classed("header", &format!("card banner {}", verdict.verdict.name()), head.then(sentence).then(classed("dl", "facts", facts)))
}

fn worst_ratio<'a>(checks: impl Iterator<Item = &'a Check>) -> Option<f64> {
    checks.filter_map(|check| check.error_over_floor).reduce(|worst, ratio| if ratio.is_nan() || ratio > worst { ratio } else { worst })
}

const HEADINGS: [Heading; 9] = [
    Heading::text("candidate", ""),
    Heading::outcome("verdict"),
    Heading::text("runtime", ""),
    Heading::text("weights", "how they are stored"),
    Heading::text("computes", "what it computes in"),
    Heading::number("error ÷ floor", "of the worst check"),
    Heading::number("max_rel", "of the worst check"),
    Heading::number("KL max", "of the worst check"),
    Heading::minor("top-1", "of the worst check"),
];

/// Every candidate in a line that leads to its section; nothing where there is one.
pub(super) fn overview(verdict: &Verdict) -> Html {
    if verdict.candidates.len() < 2 {
        return Html::default();
    }
    let lines = verdict.candidates.iter().enumerate().map(|(index, candidate)| line(index, candidate)).collect();
    classed("section", "card", plain("h2", "Candidates").then(table(&HEADINGS, lines)))
}

fn line(index: usize, candidate: &CandidateVerdict) -> Line {
    let facts = &candidate.facts;
    let checks = &candidate.checks;
    let largest = |of: &dyn Fn(&Check) -> Option<f64>| checks.iter().filter_map(of).reduce(f64::max);
    let target = format!("#candidate-{index}");
    let cells = vec![
        element("a", &[("href", &target)], facts.path.as_str()),
        status(candidate.verdict),
        facts.runtime.as_str().into(),
        dtype_label(facts.storage).into(),
        dtype_label(facts.compute).into(),
        worst_ratio(checks.iter()).map_or_else(|| "–".to_owned(), times).into(),
        largest(&|check| Some(check.max_rel)).map_or_else(|| "–".to_owned(), figure).into(),
        figure_or_none(largest(&|check| check.kl_max)).into(),
        share(checks.iter().filter_map(|check| check.top1_agreement).reduce(f64::min)).into(),
    ];
    Line { cells, note: Html::default() }
}

/// `agree`, for the page's title.
pub(super) fn title(verdict: &Verdict) -> String {
    format!("{}: {}", verdict.source.path, words(verdict.verdict))
}
