//! The GGUF import against what PyPI `gguf` and transformers made of the same files.
//!
//! `tools/make_gguf_cases.py` and `tools/gguf_oracle.py` wrote the expectations in `testdata/gguf`.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod blocks;
mod demo;
mod folder;
mod mutations;
mod oracle;
mod refusals;
mod rewrite;
mod tiny;

use std::path::PathBuf;

/// A file under `testdata/gguf`.
fn testdata(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "testdata", "gguf", name].iter().collect()
}

/// An error with its causes, as one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
