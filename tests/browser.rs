//! The report in a real browser: laid out at the width of a phone and of a desk, light and dark.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{case, copy_files, plansmith, text};
use serde::Deserialize;

/// Shows the report in frames of several widths and writes what it measures as text. The report lies beside it.
const PROBE: &str = r##"<!doctype html><meta charset="utf-8"><title>probe</title><body><script>
const widths = [320, 360, 768, 1032, 1280];
const measure = (frame, width) => {
  const page = frame.contentDocument, view = frame.contentWindow;
  const name = element => element.tagName + "." + (element.getAttribute("class") || "");
  const beyond = [...page.body.querySelectorAll("*")].filter(element => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && (box.right > width + 1 || box.left < -1);
  });
  const words = [...page.querySelectorAll("svg text")].map(element => element.getBoundingClientRect().height);
  return {
    width,
    title: page.title,
    scroll: page.documentElement.scrollWidth,
    beyond: beyond.slice(0, 5).map(name),
    drawings: page.querySelectorAll("svg").length,
    smallest_words: Math.min(...words),
    active: page.querySelectorAll("script, img, iframe, object, embed, link, form, [onerror], [onload]").length,
    fetched: view.performance.getEntriesByType("resource").map(entry => entry.name),
    background: view.getComputedStyle(page.body).backgroundColor,
    columns_hidden: view.getComputedStyle(page.querySelector("thead")).display === "none",
  };
};
const frames = widths.map(width => new Promise(done => {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px;height:30000px;border:0`;
  frame.onload = () => done(measure(frame, width));
  frame.src = "report.html";
  document.body.append(frame);
}));
Promise.all(frames).then(all => {
  const out = document.createElement("pre");
  out.id = "measured";
  out.textContent = btoa(JSON.stringify(all));
  document.body.append(out);
});
</script>"##;

#[derive(Debug, Deserialize)]
struct Measured {
    width: u32,
    title: String,
    scroll: u32,
    beyond: Vec<String>,
    drawings: usize,
    smallest_words: f64,
    active: usize,
    fetched: Vec<String>,
    background: String,
    columns_hidden: bool,
}

fn chromium() -> PathBuf {
    std::env::var_os("PLANSMITH_CHROMIUM").expect("PLANSMITH_CHROMIUM names a browser").into()
}

/// The document of `page` after its scripts have run. `scheme` is Blink's number: 0 dark, 1 light.
fn load(page: &Path, scheme: u32) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(chromium())
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--allow-file-access-from-files"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let (dom, log) = (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(output.status.success(), "{log}");
    let said: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(said.is_empty(), "{said:?}");
    dom
}

/// What the browser makes of `report` in each width.
fn measure(report: &Path, scheme: u32) -> Vec<Measured> {
    let probe = report.with_file_name("probe.html");
    std::fs::write(&probe, PROBE).unwrap();
    let dom = load(&probe, scheme);
    let encoded = dom.split("<pre id=\"measured\">").nth(1).unwrap_or_else(|| panic!("{dom}")).split('<').next().unwrap();
    serde_json::from_slice(&base64(encoded)).unwrap()
}

/// Decodes what `btoa` encodes.
fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u32> = text.bytes().filter(|byte| *byte != b'=').map(digit).collect();
    digits
        .chunks(4)
        .flat_map(|four| {
            let word = four.iter().enumerate().fold(0, |word, (index, digit)| word | digit << (18 - 6 * index));
            word.to_be_bytes()[1..four.len()].to_vec()
        })
        .collect()
}

#[track_caller]
fn holds(measured: &[Measured], title: &str) {
    assert_eq!(measured.iter().map(|page| page.width).collect::<Vec<_>>(), [320, 360, 768, 1032, 1280]);
    for page in measured {
        assert_eq!(page.title, title);
        assert!(page.scroll <= page.width && page.beyond.is_empty(), "it scrolls sideways: {page:?}");
        assert!(page.drawings >= 8 && page.smallest_words >= 9.0, "drawings are missing or too small to read: {page:?}");
        assert_eq!((page.active, page.fetched.len()), (0, 0), "the page is not inert: {page:?}");
        assert_eq!(page.columns_hidden, page.width <= 1024, "{page:?}");
    }
}

#[test]
#[ignore = "needs Chromium: run by cargo xtask test"]
fn a_report_fits_phone_and_desk_in_light_and_dark() {
    let folder = tempfile::tempdir().unwrap();
    let golden = case("untied_distinct").join("golden.safetensors");
    let arguments = ["verify", "testdata/cases/untied_distinct", "--golden", text(&golden), "--report", text(folder.path())];
    plansmith(&arguments).exits(0);
    let report = folder.path().join("report.html");
    let (light, dark) = (measure(&report, 1), measure(&report, 0));
    for measured in [&light, &dark] {
        holds(measured, "testdata/cases/untied_distinct: agree");
    }
    assert_eq!((light[0].background.as_str(), dark[0].background.as_str()), ("rgb(244, 245, 247)", "rgb(13, 16, 20)"));
}

/// A folder's name is foreign text that reaches the title, headings and tables; so do the names of a candidate that differs.
#[test]
#[ignore = "needs Chromium: run by cargo xtask test"]
fn a_hostile_name_stays_text() {
    let parent = tempfile::tempdir().unwrap();
    let name = "\"><img src=x onerror=console.error(1)> & ".to_owned() + &"long-".repeat(40);
    let source = parent.path().join(&name);
    copy_files(&case("untied_distinct"), &source);
    let other = parent.path().join("<script>document.title=1<script>");
    copy_files(&case("linear_rope"), &other);
    let report = parent.path().join("report");
    let golden = case("linear_rope").join("golden.safetensors");
    plansmith(&["verify", text(&source), "--golden", text(&golden), "--report", text(&report)]).exits(1);
    holds(&measure(&report.join("report.html"), 1), &format!("{}: disagree", text(&source)));
}
