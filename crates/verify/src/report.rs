//! `report.html`: the verdict as one self-contained page.

mod candidate;
mod divergence;
mod figures;
mod html;
mod mark;
mod overview;
mod plots;
mod provenance;
mod ranges;
mod scale;
mod svg;
mod table;

use crate::verdict::{OracleAgreement, Verdict};
use html::{Html, classed, plain, prose};

const STYLE: &str = include_str!("report.css");

impl Verdict {
    /// The verdict as one HTML page that loads nothing and runs nothing: tables and drawings, light and dark, readable on a phone.
    pub fn to_html(&self) -> String {
        let head = Html::fixed(
            "<meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\">",
        );
        let head = head.then(plain("title", overview::title(self))).then(plain("style", Html::fixed(STYLE)));
        let oracles = self.oracles.as_ref().map(oracles).unwrap_or_default();
        let candidates: Html =
            self.candidates.iter().enumerate().map(|(index, candidate)| candidate::candidate(index, candidate)).collect();
        let body = overview::banner(self)
            .then(overview::overview(self))
            .then(oracles)
            .then(candidates)
            .then(ranges::ranges(self))
            .then(provenance::provenance(self))
            .then(provenance::legend());
        let page = Html::fixed("<!doctype html>\n<html lang=\"en\">\n").then(plain("head", head)).then("\n");
        page.then(plain("body", plain("main", body))).then(Html::fixed("\n</html>\n")).into_string()
    }
}

/// The two oracles against each other.
fn oracles(agreement: &OracleAgreement) -> Html {
    let head = plain("h2", "Built-in reference against golden").then(mark::badge(agreement.verdict));
    let reason = agreement.reason.as_deref().map(|reason| classed("p", "reason", prose(reason))).unwrap_or_default();
    let body =
        classed("div", "head", head).then(reason).then(candidate::checks(&agreement.checks)).then(candidate::drawings(&agreement.checks));
    classed("section", &format!("card {}", agreement.verdict.name()), body)
}

#[cfg(test)]
mod tests;
