//! One candidate's section: facts, checks, drawings.

use super::divergence::divergence;
use super::figures::{bins, count, figure, figure_or_none, flips, of_limit, oracle, over_floor, over_limit, panels, share};
use super::html::{Html, classed, element, plain, prose};
use super::mark::{badge, outcome_of, status};
use super::plots::{histogram, margins, positions, ratios, times};
use super::table::{Heading, Line, table};
use crate::label::dtype_label;
use crate::verdict::{CandidateVerdict, Check, OracleKind, Skipped};

/// `index` counts the candidates, for links.
pub(super) fn candidate(index: usize, candidate: &CandidateVerdict) -> Html {
    let facts = &candidate.facts;
    let chips: Html =
        [facts.runtime.clone(), format!("{} stored", dtype_label(facts.storage)), format!("{} computed", dtype_label(facts.compute))]
            .into_iter()
            .map(|chip| classed("span", "chip", chip))
            .collect();
    let head = classed("div", "head", plain("h2", facts.path.as_str()).then(badge(candidate.verdict)));
    let hash = classed("span", "hash", plain("code", facts.sha256.to_string()));
    let mut body = head.then(classed("p", "chips", chips.then(hash)));
    if let Some(reason) = &candidate.reason {
        body = body.then(classed("p", "reason", prose(reason)));
    }
    if let Some(first) = &candidate.first_divergence {
        body = body.then(divergence(first));
    }
    body = body.then(checks(&candidate.checks)).then(drawings(&candidate.checks));
    let lists = [("Checks that failed to run", &candidate.failed_to_run), ("Checks that did not apply", &candidate.skipped)];
    for (title, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        let items: Html = list.iter().map(unmade).collect();
        body = body.then(plain("h3", title)).then(classed("ul", "skipped", items));
    }
    let id = format!("candidate-{index}");
    element("section", &[("id", &id), ("class", &format!("card {}", candidate.verdict.name()))], body)
}

fn unmade(check: &Skipped) -> Html {
    let name = plain("b", format!("{} ({})", check.name, oracle(check.oracle)));
    plain("li", name.then(" ").then(prose(&check.reason)))
}

const HEADINGS: [Heading; 13] = [
    Heading::text("check", ""),
    Heading::outcome("result"),
    Heading::number("error ÷ floor", "the largest of max_rel, mean_rel and the roots of KL, over what rounding alone makes of them"),
    Heading::number("of limit", "the largest share of its limit that any figure takes"),
    Heading::number("max_rel", "largest difference of a logit, in standard deviations of the source's logits"),
    Heading::minor("mean_rel", "mean difference in the same unit"),
    Heading::minor("KL mean", "mean of KL(source‖candidate) over positions, in nats"),
    Heading::minor("KL p99", "its 99th percentile"),
    Heading::number("KL max", "maximum of KL(source‖candidate) over positions, in nats"),
    Heading::number("top-1", "positions with the same first choice"),
    Heading::minor("top-5", "share of the source's five first choices that are among the candidate's"),
    Heading::minor("Δ perplexity", "candidate's less source's over the source's, of the tokens of the prompts"),
    Heading::number("positions", "positions compared"),
];

/// All checks in a table, failures below their line.
pub(super) fn checks(checks: &[Check]) -> Html {
    let both = checks.iter().any(|check| check.oracle != checks[0].oracle);
    table(&HEADINGS, checks.iter().map(|check| line(check, both)).collect())
}

/// `both`: whether there are checks against both oracles.
fn line(check: &Check, both: bool) -> Line {
    let oracle = if both { classed("span", "soft oracle", oracle(check.oracle)) } else { Html::default() };
    let name = plain("span", check.name.to_string()).then(oracle);
    let perplexity =
        check.perplexity.map_or_else(|| "–".to_owned(), |perplexity| format!("{:+.1e}", perplexity.difference / perplexity.source));
    let cells = vec![
        name,
        status(outcome_of(check.passed)),
        check.error_over_floor.map_or_else(|| "–".into(), |ratio| strong(&times(ratio))),
        of_limit(check).map_or_else(|| "–".into(), |share| meter(share, check.passed)),
        figure(check.max_rel).into(),
        figure(check.mean_rel).into(),
        figure_or_none(check.kl_mean).into(),
        figure_or_none(check.kl_p99).into(),
        figure_or_none(check.kl_max).into(),
        share(check.top1_agreement).into(),
        share(check.top5_overlap).into(),
        perplexity.into(),
        count(check.positions).into(),
    ];
    Line { cells, note: note(check) }
}

fn strong(text: &str) -> Html {
    plain("b", text)
}

/// A bar for a share; full where it is 1 or more.
fn meter(share: f64, passed: bool) -> Html {
    let state = if passed { "good" } else { "bad" };
    let width = format!("width:{:.0}%", (share.clamp(0.0, 1.0) * 100.0).round());
    let fill = element("span", &[("class", &state), ("style", &width)], Html::default());
    classed("span", "meter", fill).then(if share <= 1.0 { format!("{share:.2}") } else { times(share) })
}

/// What is said below a check: failures, where the worst is, where greedy text parts.
fn note(check: &Check) -> Html {
    let mut sentences: Vec<Html> = check.failures.iter().map(|failure| classed("span", "failure", prose(failure))).collect();
    if check.nonfinite > 0 && check.failures.is_empty() {
        sentences.push(format!("{} values are not finite", count(check.nonfinite)).into());
    }
    if let (false, Some(worst)) = (check.passed, &check.worst) {
        let (row, column) = (worst.place.row, worst.place.column);
        sentences
            .push(plain("span", "worst in set ").then(plain("code", worst.set.as_str())).then(format!(", row {row}, column {column}")));
    }
    if let Some(greedy) = &check.greedy
        && let Some(first) = &greedy.first_divergence
    {
        let tie = if greedy.tie { "a tie that rounding may decide" } else { "beyond what rounding may decide" };
        sentences.push(
            format!(
                "{} of {} choices alike; at column {} the source chooses {}, the candidate {}: margin {} deviations, {tie}",
                greedy.alike,
                greedy.tokens,
                first.place.column,
                first.source,
                first.candidate,
                figure(first.margin)
            )
            .into(),
        );
    }
    let last = sentences.len().saturating_sub(1);
    let joined = |(index, sentence): (usize, Html)| if index < last { sentence.then("; ") } else { sentence };
    sentences.into_iter().enumerate().map(joined).collect()
}

/// The drawings that there are figures for.
pub(super) fn drawings(checks: &[Check]) -> Html {
    if checks.is_empty() {
        return Html::default();
    }
    let (bars, factor) = over_floor(checks);
    let bars = if bars.is_empty() {
        ratios("Share of the limit", "The largest share of its limit that any figure of a check takes.", &over_limit(checks), None)
    } else {
        let note = "How many times what rounding alone does: max_rel, mean_rel and the roots of KL, the largest of them.";
        ratios("Error ÷ floor", note, &bars, factor)
    };
    let small = bars.then(histogram(&bins(checks))).then(margins(&flips(checks)));
    let kinds = [OracleKind::Golden, OracleKind::Reference];
    let both = kinds.iter().all(|kind| checks.iter().any(|check| check.oracle == *kind));
    let by_position = kinds.into_iter().map(|kind| {
        let title = if both { format!("Error by position, against the {}", oracle(kind)) } else { "Error by position".to_owned() };
        positions(&title, &panels(checks, kind))
    });
    by_position.collect::<Html>().then(classed("div", "drawings", small))
}
