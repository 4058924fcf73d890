//! Stamps the build: version, commit and target, which every manifest records.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=PLANSMITH_COMMIT={commit}");
    println!("cargo::rustc-env=PLANSMITH_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    // The commit changes when HEAD moves; the reflog is the file that every such move appends to.
    match git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        Some(log) if std::path::Path::new(&log).exists() => println!("cargo::rerun-if-changed={log}"),
        _ => println!("cargo::rerun-if-changed=build.rs"),
    }
}
