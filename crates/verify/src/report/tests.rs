use plansmith_files::Digest;
use serde_json::{Value, json};

use super::*;
use crate::verdict::{FirstDivergence, LayerPeaks, PlaceError};

/// A verdict that `plansmith verify --report` wrote, as it was.
fn written(name: &str) -> Verdict {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/verify").join(name);
    serde_json::from_str(&plansmith_files::read_to_string(&path).unwrap()).unwrap()
}

/// Every element that is opened is closed, in order: a browser would repair it and a reader would not see it.
fn is_balanced(html: &str) {
    let page = html.split_once("<html").unwrap().1;
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let name = tag.split(|c: char| !c.is_ascii_alphanumeric() && c != '/').next().unwrap();
        match name.strip_prefix('/') {
            Some("html") => assert!(open.is_empty(), "{open:?}"),
            Some(closed) => assert_eq!(open.pop(), Some(closed), "…<{}", &tag[..tag.len().min(60)]),
            None if name != "meta" => open.push(name),
            None => {}
        }
    }
}

#[test]
fn a_verdict_of_an_earlier_release_is_still_shown() {
    let verdict = written("verdict_before_floors.json");
    let html = verdict.to_html();
    is_balanced(&html);
    let checks = verdict.candidates[0].checks.len() + verdict.oracles.as_ref().unwrap().checks.len();
    assert_eq!(html.matches("<tr><th scope=\"row\">").count(), checks);
    // It has no floors and no positions: what there is, is shown.
    assert!(html.contains("Share of the limit") && !html.contains("Error by position") && !html.contains("Range audit"));
}

#[test]
fn what_was_measured_is_drawn() {
    let verdict = written("verdict_bisected.json");
    let html = verdict.to_html();
    is_balanced(&html);
    let checks = || verdict.candidates.iter().flat_map(|candidate| &candidate.checks);
    let drawn = checks().filter(|check| !check.by_position.column.is_empty()).count();
    assert!(drawn > 10);
    assert_eq!(html.matches("class=\"panel\"").count(), drawn);
    assert_eq!(html.matches("Error ÷ floor</h4>").count(), 2);
    assert_eq!(html.matches("Margins of flips</h4>").count(), 1);
    let positions: usize = checks().filter_map(|check| check.kl_histogram.as_ref()).flat_map(|histogram| &histogram.counts).sum();
    let bars = html.split("Divergence</h4>").skip(1).flat_map(|figure| figure.split("</svg>").next().unwrap().split("<title>").skip(1));
    let counted = bars.filter_map(|title| title.split(' ').next()?.parse::<usize>().ok());
    assert_eq!(counted.sum::<usize>(), positions);
    let first = verdict.candidates[1].first_divergence.as_ref().unwrap();
    assert!(html.contains("First divergence") && html.contains("layer 1, self_attn</b>") && html.contains("Error by layer"));
    assert!(first.cause_hints.iter().all(|hint| html.contains(&html::prose(hint).into_string())));
    assert!(html.contains("Range audit") && html.contains("fp16, which holds up to 65,504, holds all of them"));
}

#[test]
fn the_page_is_inert() {
    for name in ["verdict_before_floors.json", "verdict_bisected.json"] {
        let html = written(name).to_html();
        for outside in ["http:", "https:", "src=", "@import", "url(", "<script", "<link", "<img"] {
            assert!(!html.contains(outside), "{name}: {outside}");
        }
        let handler = html.split(" on").skip(1).find(|rest| rest.trim_start_matches(char::is_alphabetic).starts_with('='));
        assert_eq!(handler, None, "{name}");
        assert!(html.match_indices("href=\"").all(|(at, _)| html[at + 6..].starts_with('#')));
        assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
        assert!(html.contains("prefers-color-scheme: dark") && html.contains("width=device-width"));
    }
}

const HOSTILE: &str = "</title></style><script>alert(1)</script><img src=x onerror='alert(2)'>\"'`&\u{202e}\u{0}";

/// Puts the hostile text wherever a verdict holds text that is not of a closed set.
fn poison(value: &mut Value) {
    let closed = ["verdict", "oracle", "name", "storage", "compute", "precision", "basis", "sha256"];
    match value {
        Value::Object(map) => {
            map.iter_mut().filter(|(key, _)| !closed.contains(&key.as_str())).for_each(|(_, value)| poison(value));
        }
        Value::Array(list) => list.iter_mut().for_each(poison),
        Value::String(text) => HOSTILE.clone_into(text),
        _ => {}
    }
}

#[test]
fn no_text_of_a_verdict_becomes_markup() {
    let mut verdict = written("verdict_bisected.json");
    verdict.source.sha256.insert(HOSTILE.to_owned(), Digest::of(b""));
    verdict.source.revision = Some(HOSTILE.to_owned());
    verdict.candidates[0].reason = Some(HOSTILE.to_owned());
    verdict.candidates[0].first_divergence = Some(FirstDivergence {
        run: Some(HOSTILE.to_owned()),
        trace: vec![PlaceError { layer: None, block: HOSTILE.to_owned(), error: None }],
        ..FirstDivergence::at(None, HOSTILE)
    });
    verdict.oracles = Some(OracleAgreement {
        verdict: crate::Outcome::Disagree,
        reason: Some(HOSTILE.to_owned()),
        checks: verdict.candidates[1].checks.clone(),
    });
    let clean = verdict.to_html();
    let mut value = serde_json::to_value(&verdict).unwrap();
    let mut golden = json!({ "path": "golden.safetensors", "sha256": Digest::of(b""), "producer": "someone" });
    poison(&mut golden);
    poison(&mut value);
    value["golden"] = golden;
    let poisoned: Verdict = serde_json::from_value(value).unwrap();
    let html = poisoned.to_html();
    is_balanced(&html);
    for markup in ["<script", "<img", "</title></style>", "\u{202e}", "\u{0}"] {
        assert!(!html.contains(markup), "{}", markup.escape_debug());
    }
    // As many elements as before, but for the golden's lines and the code that backticks set apart.
    let elements = |html: &str| html.matches('<').count() - 2 * html.matches("<code>").count();
    let golden_lines = 2 * 6 - 2 + 2;
    assert!(elements(&html).abs_diff(elements(&clean)) <= golden_lines, "{} {}", elements(&html), elements(&clean));
    assert!(html.matches("&lt;script&gt;").count() > 20);
}

#[test]
fn a_range_beyond_fp16_is_named() {
    let peaks = |mlp: f64| LayerPeaks { self_attn: 3.0, mlp, residual: 100.0 };
    let verdict = written("verdict_bisected.json").with_ranges(vec![peaks(50.0), peaks(70_000.0), peaks(f64::INFINITY)]);
    let html = verdict.to_html();
    assert!(html.contains("The largest activation of the source is inf, in layer 2, mlp."), "{html}");
    assert!(html.contains("the first block beyond is layer 1, mlp, at 7.0e4."));
}
