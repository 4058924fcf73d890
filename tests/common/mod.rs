//! The real binary, run as a user runs it.
#![allow(dead_code, reason = "each test file uses what it needs of this")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Map, Value, json};

/// What a run printed and how it ended.
#[derive(Debug)]
pub(crate) struct Run {
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
    /// Exit code; `None` after a signal.
    pub(crate) code: Option<i32>,
}

/// The command with these arguments.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plansmith"));
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
    // Tests of building build; those of the cache name one.
    command.env("PLANSMITH_PLAN_CACHE", "off");
    command
}

/// Runs to the end.
pub(crate) fn plansmith(arguments: &[&str]) -> Run {
    run(&mut command(arguments))
}

pub(crate) fn run(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let run = Run { stdout: text(stdout), stderr: text(stderr), code: status.code() };
    assert_ne!(run.code, Some(101), "a panic is a bug: {}", run.stderr);
    run
}

impl Run {
    /// Asserts the exit code; shows both streams where it is another.
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// A case of `testdata/cases`.
pub(crate) fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cases").join(name)
}

/// Copies the files of a folder into another.
pub(crate) fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            // Not `fs::copy`, which would copy a read-only mode too.
            std::fs::write(to.join(path.file_name().unwrap()), std::fs::read(&path).unwrap()).unwrap();
        }
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A tokenizer whose every id is a word of its own: `t0`, `t1`, …
pub(crate) fn words(count: u64) -> Value {
    let vocab: Map<String, Value> = (0..count).map(|id| (format!("t{id}"), json!(id))).collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null, "pre_tokenizer": { "type": "Whitespace" },
        "post_processor": null, "decoder": null, "model": { "type": "WordLevel", "vocab": vocab, "unk_token": "t0" },
    })
}
