//! Which crate may use which: the arrows of ARCHITECTURE.md.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::tidy::licences::metadata;

/// Crate and what it may use besides `files`, which all may use.
const ALLOWED: [(&str, &[&str]); 17] = [
    ("files", &[]),
    ("tensor", &[]),
    ("onnx", &["tensor"]),
    ("graph", &["onnx", "tensor"]),
    ("checkpoint", &["tensor"]),
    ("families", &[]),
    ("hub", &[]),
    ("attest", &[]),
    ("lowering", &["families", "graph", "checkpoint", "tensor", "onnx"]),
    ("reference", &["families", "checkpoint", "tensor"]),
    ("engine", &["onnx", "tensor"]),
    ("engine-worker", &["engine", "tensor"]),
    ("runtime", &["tensor", "onnx", "engine", "checkpoint"]),
    ("verify", &["tensor"]),
    ("pipeline", &["tensor", "onnx", "graph", "checkpoint", "families", "lowering", "reference", "engine", "runtime", "verify", "attest"]),
    ("mutants", &["onnx", "graph", "checkpoint", "families", "lowering", "engine", "runtime", "verify", "pipeline"]),
    ("xtask", &[]),
];

/// Every arrow that is drawn in a manifest but not here.
pub(crate) fn check() -> Result<Vec<String>, Error> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for package in metadata()?.packages {
        if package.source.is_some() || package.name == "plansmith" {
            continue;
        }
        let name = short(&package.name).to_owned();
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            findings.push(format!("crate `{name}` has no line in xtask/src/tidy/layers.rs: say what it may use"));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|dependency| dependency.source.is_none() && dependency.kind.is_none()) {
            let used = short(&dependency.name);
            if used != "files" && !allowed.contains(&used) {
                findings.push(format!("crate `{name}` uses `{used}`; it may use: files, {}", allowed.join(", ")));
            }
        }
        seen.insert(name);
    }
    findings.extend(
        ALLOWED
            .iter()
            .filter(|(name, _)| !seen.contains(*name))
            .map(|(name, _)| format!("crate `{name}` of xtask/src/tidy/layers.rs does not exist")),
    );
    Ok(findings)
}

fn short(name: &str) -> &str {
    name.strip_prefix("plansmith-").unwrap_or(name)
}
