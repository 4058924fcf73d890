//! `cargo xtask mutants`: the mutation table.

use crate::error::Error;
use crate::places;
use crate::process::Program;

/// Builds and runs `plansmith-mutants`, which is no part of this crate: what only sets things up need not compile all of plansmith.
pub(crate) fn main(runtime: &str, only: Option<&str>) -> Result<(), Error> {
    let program = Program::cargo().args(["run", "--quiet", "--package", "plansmith-mutants", "--", "--runtime", runtime]);
    let program = match only {
        Some(only) => program.args(["--only", only]),
        None => program.args(["--write", "docs/verify.md"]),
    };
    program.current_dir(&places::root()).run()
}
