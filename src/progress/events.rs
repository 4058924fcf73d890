//! The event stream: one JSON object a line, as docs/pipeline.md describes it.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Instant, SystemTime};

use plansmith_verify::{CandidateVerdict, CheckName, Outcome as Verdict};
use serde::Serialize;

use crate::exit::Failure;
use crate::replace::{Kind, may_write};

/// Version of the format. It grows when a reader has to know: a key or an event that is added does not change it.
const SCHEMA_VERSION: u32 = 1;

/// What happened.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    /// The first line.
    Start {
        verb: &'a str,
        version: &'a str,
        #[serde(serialize_with = "plansmith_files::shown")]
        pipeline: &'a Path,
    },
    /// The stages of this run, in order.
    Stages { stages: &'a [String] },
    /// A stage begins.
    Begin { stage: &'a str },
    /// How far it is.
    Progress(Standing<'a>),
    /// A check of the stage `verify` begins.
    Check { stage: &'a str, what: &'a str, check: CheckName, set: &'a str },
    /// A worker was started, and is expected to take so much memory.
    Worker { stage: &'a str, estimate_bytes: u64 },
    /// A worker does something else now: `parse`, `build`, `write`.
    Phase { stage: &'a str, phase: &'a str },
    /// TensorRT warns or complains.
    Log { stage: &'a str, severity: String, text: &'a str },
    /// A plan is there.
    Plan {
        stage: &'a str,
        #[serde(serialize_with = "plansmith_files::shown")]
        path: &'a Path,
        bytes: u64,
        sha256: String,
        peak_bytes: u64,
        cached: bool,
    },
    /// A stage ended.
    End { stage: &'a str, result: Ended, seconds: f64 },
    /// What the checks came to.
    Verdict { verdict: Verdict, executed: usize, candidates: Vec<Candidate<'a>> },
    /// What people are told besides.
    Message { text: &'a str },
    /// The last line of a run that ended as it should: exit code 0 or 1.
    Result {
        exit_code: u8,
        result: &'a str,
        #[serde(serialize_with = "plansmith_files::shown")]
        folder: &'a Path,
        manifest_sha256: Option<String>,
    },
    /// The last line of one that did not.
    Error { exit_code: u8, message: &'a str, causes: &'a [String], hint: Option<&'a str> },
}

/// How far a stage is. What is not known is null.
#[derive(Debug, Serialize)]
pub(crate) struct Standing<'a> {
    pub(crate) stage: &'a str,
    pub(crate) doing: Option<&'a str>,
    pub(crate) done_bytes: Option<u64>,
    pub(crate) total_bytes: Option<u64>,
    pub(crate) bytes_per_s: Option<u64>,
    pub(crate) left_s: Option<f64>,
    pub(crate) stage_s: f64,
    pub(crate) stages_done: usize,
    pub(crate) stages_total: Option<usize>,
}

/// How a stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ended {
    Done,
    /// Its files were there already.
    TakenOver,
    Failed,
}

/// A graph or plan, and what its checks came to.
#[derive(Debug, Serialize)]
pub(crate) struct Candidate<'a> {
    path: &'a str,
    runtime: &'a str,
    verdict: Verdict,
    reason: Option<&'a str>,
}

impl<'a> From<&'a CandidateVerdict> for Candidate<'a> {
    fn from(candidate: &'a CandidateVerdict) -> Self {
        let CandidateVerdict { facts, verdict, reason, .. } = candidate;
        Self { path: &facts.path, runtime: &facts.runtime, verdict: *verdict, reason: reason.as_deref() }
    }
}

/// A line.
#[derive(Serialize)]
struct Line<'a> {
    schema_version: u32,
    time: String,
    elapsed_s: f64,
    #[serde(flatten)]
    event: &'a Event<'a>,
}

/// Where the lines go.
#[derive(Debug)]
pub(crate) struct Events {
    /// `None` is stderr.
    file: Option<Mutex<File>>,
    began: Instant,
}

impl Events {
    /// Opens `path`, emptied where it holds an earlier stream; `-` is stderr.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let file = if path == Path::new("-") {
            None
        } else {
            may_write(path, Kind::Events)?;
            Some(Mutex::new(plansmith_files::create(path)?))
        };
        Ok(Self { file, began: Instant::now() })
    }

    /// Whether stderr is theirs, and holds nothing else.
    pub(crate) fn on_stderr(&self) -> bool {
        self.file.is_none()
    }

    /// Writes a line, whole, at once. Work does not end where nobody can read of it.
    pub(crate) fn write(&self, event: &Event<'_>) {
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let line = Line { schema_version: SCHEMA_VERSION, time, elapsed_s: thousandths(self.began.elapsed().as_secs_f64()), event };
        let Ok(mut text) = serde_json::to_string(&line) else { return };
        text.push('\n');
        let _ = match &self.file {
            Some(file) => file.lock().unwrap_or_else(std::sync::PoisonError::into_inner).write_all(text.as_bytes()),
            None => io::stderr().lock().write_all(text.as_bytes()),
        };
    }
}

/// To three digits behind the point.
pub(crate) fn thousandths(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}
