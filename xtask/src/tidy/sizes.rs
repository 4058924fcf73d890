//! Sizes of files.

use std::path::Path;

use crate::error::Error;
use crate::tidy::source::{Source, tracked};

/// Lines that a Rust file may have.
const CEILING: usize = 800;
/// Bytes that a file outside `testdata/` may have.
const LARGEST: u64 = 1_000_000;

/// Files that are too long or too large.
pub(crate) fn check(root: &Path, sources: &[Source]) -> Result<Vec<String>, Error> {
    let mut findings = Vec::new();
    for source in sources {
        let lines = source.text.lines().count();
        if lines > CEILING {
            findings.push(format!("{}: {lines} lines; the ceiling is {CEILING}", source.path.display()));
        }
    }
    for path in tracked(root)?.iter().filter(|path| !path.starts_with("testdata")) {
        let full = root.join(path);
        if plansmith_files::is_file(&full) {
            let size = plansmith_files::metadata(&full)?.len();
            if size > LARGEST {
                findings.push(format!("{}: {size} bytes; outside testdata/ the ceiling is {LARGEST}", path.display()));
            }
        }
    }
    Ok(findings)
}

/// The median number of lines.
pub(crate) fn median(sources: &[Source]) -> usize {
    let mut lines: Vec<usize> = sources.iter().map(|source| source.text.lines().count()).collect();
    lines.sort_unstable();
    lines.get(lines.len() / 2).copied().unwrap_or_default()
}
