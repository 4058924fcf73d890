//! `report.html`: the verdict as one self-contained page.

use std::fmt::Write as _;

use crate::label::dtype_label;
use crate::verdict::{CandidateVerdict, Check, OracleKind, Outcome, Verdict};

const STYLE: &str = include_str!("report.css");

impl Verdict {
    /// The verdict as one HTML page that loads nothing: a table a candidate, light and dark, readable on a phone.
    pub fn to_html(&self) -> String {
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
             </head>\n<body>\n<h1>Verdict: {outcome}</h1>\n<p>{conclusion}</p>\n",
            title = text(&format!("{}: {}", self.source.path, self.verdict.name())),
            outcome = outcome(self.verdict),
            conclusion = text(&self.conclusion()),
        );
        page.push_str(&self.provenance());
        if let Some(oracles) = &self.oracles {
            let reason = oracles.reason.as_deref().map(|reason| format!("<p>{}</p>\n", text(reason))).unwrap_or_default();
            let outcome = outcome(oracles.verdict);
            let table = table(&oracles.checks);
            let _ = write!(page, "<section>\n<h2>Built-in reference against golden: {outcome}</h2>\n{reason}{table}</section>\n");
        }
        self.candidates.iter().for_each(|candidate| page.push_str(&section(candidate)));
        page.push_str("</body>\n</html>\n");
        page
    }

    fn provenance(&self) -> String {
        let mut lines = vec![format!("source <code>{}</code>", text(&self.source.path))];
        if let Some(revision) = &self.source.revision {
            lines.push(format!("revision <code>{}</code>", text(revision)));
        }
        lines.extend(self.source.sha256.iter().map(|(file, digest)| format!("{} <code>{digest}</code>", text(file))));
        if let Some(golden) = &self.golden {
            let producer = golden.producer.as_deref().map(|producer| format!(", computed by {}", text(producer))).unwrap_or_default();
            lines.push(format!("golden <code>{}</code> <code>{}</code>{producer}", text(&golden.path), golden.sha256));
        }
        if let Some(prompts) = &self.prompts {
            lines.push(format!("prompts {} ({} sets) <code>{}</code>", text(&prompts.origin), prompts.sets, prompts.sha256));
        }
        format!("<p class=\"soft\">{}</p>\n", lines.join("<br>\n"))
    }
}

fn section(candidate: &CandidateVerdict) -> String {
    let facts = &candidate.facts;
    let (path, runtime, sha256) = (text(&facts.path), text(&facts.runtime), facts.sha256);
    let (storage, compute) = (dtype_label(facts.storage), dtype_label(facts.compute));
    let mut html = format!(
        "<section>\n<h2>{path}: {outcome}</h2>\n<p class=\"soft\">{runtime} · {storage} stored · {compute} computed · <code>{sha256}</code></p>\n",
        outcome = outcome(candidate.verdict),
    );
    if let Some(reason) = &candidate.reason {
        let _ = writeln!(html, "<p>{}</p>", text(reason));
    }
    if let Some(divergence) = &candidate.first_divergence {
        let layer = divergence.layer.map(|layer| format!("layer {layer}, ")).unwrap_or_default();
        let _ = writeln!(html, "<p>First divergence: {layer}{}</p>", text(&divergence.block));
    }
    html.push_str(&table(&candidate.checks));
    for skipped in &candidate.skipped {
        let _ = writeln!(html, "<p class=\"soft\">{} does not apply: {}</p>", skipped.name, text(&skipped.reason));
    }
    html + "</section>\n"
}

fn table(checks: &[Check]) -> String {
    if checks.is_empty() {
        return String::new();
    }
    let mut html = String::from("<div class=\"scroll\"><table>\n<tr>");
    for heading in [
        "check",
        "oracle",
        "",
        "positions",
        "max_rel",
        "of limit",
        "max abs",
        "mean abs",
        "KL mean",
        "KL p99",
        "KL max",
        "top-1",
        "top-5",
        "not finite",
        "",
    ] {
        let _ = write!(html, "<th scope=\"col\">{heading}</th>");
    }
    html.push_str("</tr>\n");
    for check in checks {
        let oracle = match check.oracle {
            OracleKind::Golden => "golden",
            OracleKind::Reference => "reference",
        };
        let passed = outcome(if check.passed { Outcome::Agree } else { Outcome::Disagree });
        let figure = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2e}"));
        let share = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{:.2} %", value * 100.0));
        let ratio = check.max_rel / check.tolerance.max_rel;
        let cells = [
            check.name.to_string(),
            oracle.to_owned(),
            passed,
            check.positions.to_string(),
            figure(Some(check.max_rel)),
            format!(
                "<meter min=\"0\" max=\"1\" low=\"0.5\" high=\"0.999\" optimum=\"0\" value=\"{:.4}\"></meter> {ratio:.2}",
                ratio.min(1.0)
            ),
            figure(Some(check.max_abs)),
            figure(Some(check.mean_abs)),
            figure(check.kl_mean),
            figure(check.kl_p99),
            figure(check.kl_max),
            share(check.top1_agreement),
            share(check.top5_overlap),
            check.nonfinite.to_string(),
        ];
        html.push_str("<tr>");
        cells.iter().for_each(|cell| html.push_str(&format!("<td>{cell}</td>")));
        let worst = check
            .worst
            .as_ref()
            .map(|worst| format!("worst in set {}, row {}, column {}", text(&worst.set), worst.place.row, worst.place.column));
        let why: Vec<String> = check.failures.iter().map(|failure| text(failure)).chain(worst).collect();
        let _ = writeln!(html, "<td class=\"why\">{}</td></tr>", why.join("; "));
    }
    html + "</table></div>\n"
}

fn outcome(outcome: Outcome) -> String {
    format!("<span class=\"outcome {name}\">{name}</span>", name = outcome.name())
}

/// Text as HTML: foreign paths and messages become no markup.
fn text(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            _ => html.push(character),
        }
    }
    html
}
