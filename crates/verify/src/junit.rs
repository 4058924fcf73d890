//! `junit.xml`: the verdict as test results, for whatever shows those: a suite a candidate and runtime, a case a check.

use std::fmt::{Display, Write as _};

use crate::label::dtype_label;
use crate::verdict::{CandidateVerdict, Check, OracleAgreement, OracleKind, Outcome, Skipped, Verdict};

impl Verdict {
    /// The verdict in the form that JUnit's Ant task writes and CI servers read. A check that failed is a `failure` with its figures, one that did
    /// not apply and a candidate that was not executed are `skipped`, what could not be run is an `error`.
    pub fn to_junit(&self) -> String {
        let mut suites: Vec<Suite> = self.oracles.iter().map(of_oracles).collect();
        suites.extend(self.candidates.iter().map(of_candidate));
        if self.candidates.is_empty() {
            let reason = self.reason.as_deref().unwrap_or("there is no candidate");
            let case = Case::new("verdict", Ending::Error(reason.to_owned()));
            suites.push(Suite { name: "verdict".to_owned(), properties: Vec::new(), cases: vec![case] });
        }
        let total = |count: fn(&Suite) -> usize| suites.iter().map(count).sum::<usize>();
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let name = format!("plansmith verify {}", self.source.path);
        open(
            &mut xml,
            0,
            "testsuites",
            &[
                ("name", &name),
                ("tests", &total(|suite| suite.cases.len())),
                ("failures", &total(Suite::failures)),
                ("errors", &total(Suite::errors)),
                ("skipped", &total(Suite::skipped)),
            ],
        );
        suites.iter().for_each(|suite| suite.write(self, &mut xml));
        xml + "</testsuites>\n"
    }
}

struct Suite {
    name: String,
    properties: Vec<(&'static str, String)>,
    cases: Vec<Case>,
}

struct Case {
    name: String,
    ending: Ending,
    /// Its figures on a line; empty where there are none.
    figures: String,
}

enum Ending {
    Passed,
    /// What failed, a sentence each.
    Failure(Vec<String>),
    Error(String),
    Skipped(String),
}

impl Case {
    fn new(name: &str, ending: Ending) -> Self {
        Self { name: name.to_owned(), ending, figures: String::new() }
    }
}

impl Suite {
    fn count(&self, of: fn(&Ending) -> bool) -> usize {
        self.cases.iter().filter(|case| of(&case.ending)).count()
    }

    fn failures(&self) -> usize {
        self.count(|ending| matches!(ending, Ending::Failure(_)))
    }

    fn errors(&self) -> usize {
        self.count(|ending| matches!(ending, Ending::Error(_)))
    }

    fn skipped(&self) -> usize {
        self.count(|ending| matches!(ending, Ending::Skipped(_)))
    }

    fn write(&self, verdict: &Verdict, xml: &mut String) {
        let counts: Attributes<'_> = &[
            ("name", &self.name),
            ("tests", &self.cases.len()),
            ("failures", &self.failures()),
            ("errors", &self.errors()),
            ("skipped", &self.skipped()),
        ];
        open(xml, 1, "testsuite", counts);
        xml.push_str("    <properties>\n");
        let conclusion = ("conclusion", verdict.conclusion());
        for (name, value) in self.properties.iter().chain([&conclusion]) {
            empty(xml, 3, "property", &[("name", name), ("value", value)]);
        }
        xml.push_str("    </properties>\n");
        for case in &self.cases {
            case.write(&self.name, xml);
        }
        xml.push_str("  </testsuite>\n");
    }
}

impl Case {
    fn write(&self, suite: &str, xml: &mut String) {
        open(xml, 2, "testcase", &[("classname", &suite), ("name", &self.name)]);
        match &self.ending {
            Ending::Passed => {}
            Ending::Failure(sentences) => {
                let first = sentences.first().map_or("", String::as_str);
                element(xml, "failure", &[("message", &first), ("type", &"outside the tolerance")], &sentences.join("\n"));
            }
            Ending::Error(reason) => element(xml, "error", &[("message", reason), ("type", &"not verified")], reason),
            Ending::Skipped(reason) => empty(xml, 3, "skipped", &[("message", reason)]),
        }
        if !self.figures.is_empty() {
            element(xml, "system-out", &[], &self.figures);
        }
        xml.push_str("    </testcase>\n");
    }
}

fn of_oracles(agreement: &OracleAgreement) -> Suite {
    let mut cases: Vec<Case> = agreement.checks.iter().map(of_check).collect();
    if agreement.verdict == Outcome::Error || cases.is_empty() {
        let reason = agreement.reason.clone().unwrap_or_else(|| "nothing was compared".to_owned());
        cases.push(Case::new("agreement", Ending::Error(reason)));
    }
    Suite { name: "built-in reference against golden".to_owned(), properties: Vec::new(), cases }
}

fn of_candidate(candidate: &CandidateVerdict) -> Suite {
    let facts = &candidate.facts;
    let mut cases: Vec<Case> = candidate.checks.iter().map(of_check).collect();
    cases.extend(candidate.failed_to_run.iter().map(of_failed_to_run));
    cases.extend(candidate.skipped.iter().map(of_skipped));
    let reason = || candidate.reason.clone().unwrap_or_else(|| candidate.verdict.name().to_owned());
    let failed = candidate.checks.iter().any(|check| !check.passed);
    let place = candidate.first_divergence.as_ref().map(|first| first.paragraph().trim_start().to_owned());
    match candidate.verdict {
        Outcome::NotExecuted => cases.push(Case::new("execution", Ending::Skipped(reason()))),
        // Each has a case of its own.
        Outcome::Error if !candidate.failed_to_run.is_empty() => {}
        Outcome::Error => cases.push(Case::new("execution", Ending::Error(reason()))),
        // Found by no check: an audit of weights or of ranges.
        Outcome::Disagree if !failed => cases.push(Case::new("audit", Ending::Failure([reason()].into_iter().chain(place).collect()))),
        Outcome::Disagree => {
            let first = cases.iter_mut().find_map(|case| match &mut case.ending {
                Ending::Failure(sentences) => Some(sentences),
                _ => None,
            });
            if let (Some(sentences), Some(place)) = (first, place) {
                sentences.push(place);
            }
        }
        Outcome::Agree => {}
    }
    let properties = vec![
        ("path", facts.path.clone()),
        ("sha256", facts.sha256.to_string()),
        ("runtime", facts.runtime.clone()),
        ("storage", dtype_label(facts.storage)),
        ("compute", dtype_label(facts.compute)),
        ("verdict", candidate.verdict.name().to_owned()),
    ];
    Suite { name: format!("{} on {}", facts.path, facts.runtime), properties, cases }
}

fn case_name(check: &dyn Display, oracle: OracleKind) -> String {
    let oracle = match oracle {
        OracleKind::Golden => "golden",
        OracleKind::Reference => "reference",
    };
    format!("{check} against {oracle}")
}

fn of_check(check: &Check) -> Case {
    let mut sentences = check.failures.clone();
    if let (false, Some(worst)) = (check.passed, &check.worst) {
        sentences.push(format!("worst in set `{}`, row {}, column {}", worst.set, worst.place.row, worst.place.column));
    }
    let ending = if check.passed { Ending::Passed } else { Ending::Failure(sentences) };
    let mut figures = format!("{} positions, max_rel {:.1e}, mean_rel {:.1e}", check.positions, check.max_rel, check.mean_rel);
    for (name, value) in [("KL mean", check.kl_mean), ("KL max", check.kl_max), ("error over floor", check.error_over_floor)] {
        if let Some(value) = value {
            let _ = write!(figures, ", {name} {value:.1e}");
        }
    }
    if let Some(top1) = check.top1_agreement {
        let _ = write!(figures, ", top-1 {:.2} %", top1 * 100.0);
    }
    Case { figures, ..Case::new(&case_name(&check.name, check.oracle), ending) }
}

fn of_failed_to_run(check: &Skipped) -> Case {
    let name = format!("{} (failed to run)", case_name(&check.name, check.oracle));
    Case::new(&name, Ending::Error(check.reason.clone()))
}

fn of_skipped(skipped: &Skipped) -> Case {
    // A check that applied to some sets has a case of its own.
    let name = format!("{} (not applied)", case_name(&skipped.name, skipped.oracle));
    Case::new(&name, Ending::Skipped(skipped.reason.clone()))
}

/// Names are fixed, values are escaped.
type Attributes<'a> = &'a [(&'static str, &'a dyn Display)];

fn start(xml: &mut String, depth: usize, name: &'static str, attributes: Attributes<'_>) {
    let _ = write!(xml, "{:1$}<{name}", "", 2 * depth);
    for (key, value) in attributes {
        let _ = write!(xml, " {key}=\"");
        escape(&value.to_string(), xml);
        xml.push('"');
    }
}

fn open(xml: &mut String, depth: usize, name: &'static str, attributes: Attributes<'_>) {
    start(xml, depth, name, attributes);
    xml.push_str(">\n");
}

fn empty(xml: &mut String, depth: usize, name: &'static str, attributes: Attributes<'_>) {
    start(xml, depth, name, attributes);
    xml.push_str("/>\n");
}

/// An element of a case, with text.
fn element(xml: &mut String, name: &'static str, attributes: Attributes<'_>, text: &str) {
    start(xml, 3, name, attributes);
    xml.push('>');
    escape(text, xml);
    let _ = writeln!(xml, "</{name}>");
}

/// Escapes what is markup, and writes out what XML 1.0 cannot hold at all: control characters and the two that are no characters. A line
/// break in an attribute would be read as a space.
fn escape(text: &str, xml: &mut String) {
    for character in text.chars() {
        match character {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            '\n' => xml.push_str("&#10;"),
            '\t' => xml.push_str("&#9;"),
            '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(xml, "\\u{{{:x}}}", u32::from(character));
            }
            _ if character.is_control() => {
                let _ = write!(xml, "\\u{{{:x}}}", u32::from(character));
            }
            _ => xml.push(character),
        }
    }
}

#[cfg(test)]
mod tests;
