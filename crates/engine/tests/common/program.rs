//! Scripts to be executed.

use std::path::Path;
use std::process::Command;

/// Writes a script that can be executed. Another process does: what this one has open for writing is inherited by those that other tests start in
/// the same moment, and nothing that anybody writes to can be executed.
pub(crate) fn program(path: &Path, text: &str) {
    let write = ["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""];
    assert!(Command::new("sh").args(write).arg(path).arg(text).status().unwrap().success(), "{}", path.display());
}
