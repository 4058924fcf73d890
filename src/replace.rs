//! What may be written over: files of the kind that the verb itself writes, and no others.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use plansmith_pipeline::folder_of_build;
use plansmith_verify::Golden;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::exit::Failure;

/// What a verb writes to a file that the user names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Golden,
    Events,
    Verdict,
    Page,
    JUnit,
    /// `config.pbtxt`.
    Triton,
}

/// The first bytes of `report.html`.
const PAGE: &str = "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" \
                    content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\"><title>";
/// The first bytes of `junit.xml`.
const JUNIT: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"plansmith verify ";
/// No first line of an event stream is longer.
const LONGEST_LINE: u64 = 1 << 20;

/// Refuses to write a `kind` to `path` where something else is: another kind of file, or a folder that builds make.
pub(crate) fn may_write(path: &Path, kind: Kind) -> Result<(), Failure> {
    outside_of_builds(path)?;
    let Ok(metadata) = plansmith_files::metadata(path) else { return Ok(()) };
    let refuse = |problem: &str| Err(Failure::new(format!("{} {problem}", path.display())).hint("name another file"));
    match (metadata.is_file(), kind) {
        // A stream goes into pipes and devices too, and empties none.
        (false, Kind::Events) => Ok(()),
        (false, _) => refuse("is no regular file, and would be replaced"),
        // As `mktemp` leaves one.
        (true, _) if metadata.len() == 0 || kind.is_at(path) => Ok(()),
        (true, _) => refuse(&format!("would be replaced, and is {}", kind.none())),
    }
}

/// The same, and removes what an earlier run wrote there: should this one fail, nobody is to take that for its result.
pub(crate) fn clear(path: &Path, kind: Kind) -> Result<(), Failure> {
    may_write(path, kind)?;
    if plansmith_files::is_file(path) {
        plansmith_files::remove_file(path)?;
    }
    Ok(())
}

/// Refuses to write `path` into a folder that a build made or fills.
pub(crate) fn outside_of_builds(path: &Path) -> Result<(), Failure> {
    let Some(folder) = folder_of_build(path) else { return Ok(()) };
    let (path, folder) = (path.display(), folder.display());
    Err(Failure::new(format!("{path} is in {folder}, which builds make and replace as a whole")).hint("name another place"))
}

impl Kind {
    fn none(self) -> &'static str {
        match self {
            Self::Golden => "no golden file",
            Self::Events => "no event stream of plansmith",
            Self::Verdict => "no verdict.json of plansmith",
            Self::Page => "no report.html of plansmith",
            Self::JUnit => "no junit.xml of plansmith",
            Self::Triton => "no config.pbtxt as plansmith writes it",
        }
    }

    /// Whether the regular file at `path` is one. What cannot be read is none.
    fn is_at(self, path: &Path) -> bool {
        match self {
            Self::Golden => Golden::is_at(path),
            Self::Events => is_events(path),
            Self::Verdict => is_verdict(path),
            Self::Page => begins(path, PAGE),
            Self::JUnit => begins(path, JUNIT),
            Self::Triton => is_triton(path),
        }
    }
}

fn begins(path: &Path, with: &str) -> bool {
    let mut start = vec![0; with.len()];
    plansmith_files::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok()) && start == with.as_bytes()
}

fn is_events(path: &Path) -> bool {
    #[derive(Deserialize)]
    #[expect(dead_code, reason = "that they are there is what counts")]
    struct Line {
        schema_version: u32,
        time: String,
        elapsed_s: f64,
        event: String,
    }
    let Ok(file) = plansmith_files::open(path) else { return false };
    let mut line = String::new();
    BufReader::new(file.take(LONGEST_LINE)).read_line(&mut line).is_ok() && serde_json::from_str::<Line>(&line).is_ok()
}

/// Whether every line is one that plansmith writes: a configuration that somebody went on to tune has others.
fn is_triton(path: &Path) -> bool {
    let Ok(file) = plansmith_files::open(path) else { return false };
    let mut text = String::new();
    let ours = |line: &str| {
        let begins = |starts: &[&str]| starts.iter().any(|start| line.starts_with(start));
        begins(&["name: \"", "default_model_filename: \"", "  { name: \"", "  { key: \""])
            || matches!(line, "backend: \"onnxruntime\"" | "platform: \"tensorrt_plan\"" | "max_batch_size: 0" | "]")
            || matches!(line, "input [" | "output [" | "cc_model_filenames [")
    };
    file.take(LONGEST_LINE).read_to_string(&mut text).is_ok() && text.lines().all(ours)
}

fn is_verdict(path: &Path) -> bool {
    #[derive(Deserialize)]
    #[expect(dead_code, reason = "that they are there is what counts")]
    struct Verdict {
        schema_version: u32,
        verdict: plansmith_verify::Outcome,
        oracle: plansmith_verify::Oracle,
        source: IgnoredAny,
        candidates: Vec<IgnoredAny>,
    }
    // What is none is found to be so in its first bytes.
    plansmith_files::open(path).is_ok_and(|file| serde_json::from_reader::<_, Verdict>(BufReader::new(file)).is_ok())
}
