use roxmltree::{Document, Node};

use super::*;
use crate::verdict::tests::{candidate, plan, verdict};
use crate::{CandidateVerdict, FirstDivergence};

/// The attributes and children that the schema of Jenkins' xUnit plugin (`junit-10.xsd`) allows.
const SCHEMA: [(&str, &[&str], &[&str]); 9] = [
    ("testsuites", &["name", "tests", "failures", "errors", "skipped"], &["testsuite"]),
    ("testsuite", &["name", "tests", "failures", "errors", "skipped"], &["properties", "testcase"]),
    ("properties", &[], &["property"]),
    ("property", &["name", "value"], &[]),
    ("testcase", &["classname", "name"], &["failure", "error", "skipped", "system-out"]),
    ("failure", &["message", "type"], &[]),
    ("error", &["message", "type"], &[]),
    ("skipped", &["message"], &[]),
    ("system-out", &[], &[]),
];

fn children<'a>(node: &Node<'a, 'a>, name: &'static str) -> Vec<Node<'a, 'a>> {
    node.children().filter(|child| child.has_tag_name(name)).collect()
}

/// Parses `xml`, and checks it against the schema and the counts against what is there.
fn check(xml: &str) -> Document<'_> {
    let document = Document::parse(xml).unwrap();
    for node in document.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        let (_, attributes, inside) = SCHEMA.iter().find(|(known, ..)| *known == name).unwrap_or_else(|| panic!("<{name}>"));
        let given: Vec<&str> = node.attributes().map(|attribute| attribute.name()).collect();
        assert_eq!(given, *attributes, "<{name}>");
        assert!(node.children().filter(Node::is_element).all(|child| inside.contains(&child.tag_name().name())), "<{name}>");
    }
    let root = document.root_element();
    let suites = children(&root, "testsuite");
    let count = |node: &Node<'_, '_>, name: &str| node.attribute(name).unwrap().parse::<usize>().unwrap();
    for suite in &suites {
        let cases = children(suite, "testcase");
        assert_eq!(count(suite, "tests"), cases.len());
        for (counted, name) in [("failures", "failure"), ("errors", "error"), ("skipped", "skipped")] {
            assert_eq!(count(suite, counted), suite.descendants().filter(|node| node.has_tag_name(name)).count(), "{counted}");
        }
        let mut names: Vec<&str> = cases.iter().map(|case| case.attribute("name").unwrap()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), cases.len(), "two cases of one name hide each other");
    }
    for counted in ["tests", "failures", "errors", "skipped"] {
        assert_eq!(count(&root, counted), suites.iter().map(|suite| count(suite, counted)).sum::<usize>());
    }
    document
}

#[test]
fn checks_are_cases_and_candidates_suites() {
    let xml = verdict(vec![candidate("model.onnx", 3e-6), candidate("bad.onnx", 0.5), plan()]).to_junit();
    let document = check(&xml);
    let root = document.root_element();
    assert_eq!(root.attribute("name"), Some("plansmith verify <m&m>"));
    let suites = children(&root, "testsuite");
    let names: Vec<_> = suites.iter().map(|suite| suite.attribute("name").unwrap()).collect();
    assert_eq!(names, ["model.onnx on rten", "bad.onnx on rten", "decode.plan on rten"]);
    let counts = ["tests", "failures", "errors", "skipped"].map(|name| root.attribute(name).unwrap());
    assert_eq!(counts, ["5", "1", "0", "3"]);
    let failed = children(&suites[1], "testcase")[0];
    assert_eq!(failed.attribute("name"), Some("padded against reference"));
    let failure = children(&failed, "failure")[0];
    assert_eq!(failure.attribute("message"), Some("max_rel 5.00e-1 exceeds 1e-4"));
    assert!(failure.text().unwrap().ends_with("worst in set `left-padded`, row 2, column 5"), "{:?}", failure.text());
    assert!(children(&failed, "system-out")[0].text().unwrap().starts_with("312 positions, max_rel 5.0e-1"));
    let skipped = children(&children(&suites[2], "testcase")[0], "skipped")[0];
    assert_eq!(skipped.attribute("message"), Some("no GPU: header and hashes agree with the manifest"));
}

/// What no check found, and what could not run, must fail a build too.
#[test]
fn nothing_that_fails_is_without_a_case() {
    let audit = CandidateVerdict { verdict: Outcome::Disagree, reason: Some("static audit: x".into()), ..candidate("a.onnx", 0.0) };
    let broken = CandidateVerdict::failed(candidate("b.onnx", 0.0).facts, "rten refuses it".to_owned());
    let xml = verdict(vec![audit, broken]).to_junit();
    let document = check(&xml);
    let messages: Vec<_> = document.descendants().filter(|node| node.has_tag_name("failure") || node.has_tag_name("error")).collect();
    let messages: Vec<_> = messages.iter().map(|node| (node.tag_name().name(), node.attribute("message").unwrap())).collect();
    assert_eq!(messages, [("failure", "static audit: x"), ("error", "rten refuses it")]);
    let xml = verdict(vec![]).to_junit();
    let document = check(&xml);
    assert_eq!(document.root_element().attribute("errors"), Some("1"));
}

/// XML 1.0 has no way to write control characters: one of them in a tensor's name, and no CI server reads the file.
#[test]
fn foreign_text_is_read_back_as_text() {
    let hostile = "]]></testcase><!--&amp;\"'\n\t\u{0}\u{1b}\u{fffe}\u{ffff}\u{7f}ü";
    let mut bad = candidate(hostile, 0.5);
    bad.checks[0].failures = vec![hostile.to_owned()];
    bad.skipped[0].reason = hostile.to_owned();
    bad.first_divergence = Some(FirstDivergence::at(Some(3), hostile));
    let xml = verdict(vec![bad]).to_junit();
    let document = check(&xml);
    let shown = "]]></testcase><!--&amp;\"'\n\t\\u{0}\\u{1b}\\u{fffe}\\u{ffff}\\u{7f}ü";
    let suite = children(&document.root_element(), "testsuite")[0];
    assert_eq!(suite.attribute("name"), Some(format!("{shown} on rten").as_str()));
    let failure = suite.descendants().find(|node| node.has_tag_name("failure")).unwrap();
    assert_eq!(failure.attribute("message"), Some(shown));
    assert!(failure.text().unwrap().contains(&format!("first differs at layer 3, {shown}")));
}
