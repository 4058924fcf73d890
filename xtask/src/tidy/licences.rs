//! Licences, bans and sources of the dependencies, by the lists in deny.toml.
//!
//! cargo-deny reads the same file; this needs nothing installed, and covers what needs no advisory database.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::error::Error;
use crate::places;
use crate::process::Program;

/// What `cargo metadata` says, as far as it is read.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<PackageEntry>,
}

/// A package of the dependency graph.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PackageEntry {
    pub(crate) name: String,
    version: String,
    license: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

/// An arrow from one package to another; `kind` is none for ordinary ones.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) source: Option<String>,
    pub(crate) kind: Option<String>,
}

/// The dependency graph for this platform.
pub(crate) fn metadata() -> Result<Metadata, Error> {
    static METADATA: OnceLock<Metadata> = OnceLock::new();
    if let Some(metadata) = METADATA.get() {
        return Ok(metadata.clone());
    }
    let cargo = Program::cargo()
        .args(["metadata", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(&places::root());
    let metadata: Metadata =
        serde_json::from_str(&cargo.read()?.stdout).map_err(|source| Error::Json { path: "cargo metadata".into(), source })?;
    Ok(METADATA.get_or_init(|| metadata).clone())
}

/// The number of packages that deny.toml does not let in, each said on a line.
pub(crate) fn check() -> Result<usize, Error> {
    let path = places::root().join("deny.toml");
    let text = plansmith_files::read_to_string(&path)?;
    let lists = Lists::read(&text).map_err(|why| Error::Unexpected { what: "deny.toml".into(), why })?;
    let packages = metadata()?.packages;
    let findings: Vec<String> = packages.iter().flat_map(|package| lists.findings(package)).collect();
    for finding in &findings {
        println!("deny.toml: {finding}");
    }
    println!("deny.toml: {} packages, {} findings", packages.len(), findings.len());
    Ok(findings.len())
}

/// The lists of deny.toml.
#[derive(Debug, PartialEq, Eq)]
struct Lists {
    licences: Vec<String>,
    bans: Vec<String>,
    registries: Vec<String>,
}

impl Lists {
    fn read(text: &str) -> Result<Self, String> {
        let bans = list(text, "bans", "deny")?;
        Ok(Self { licences: list(text, "licenses", "allow")?, bans, registries: list(text, "sources", "allow-registry")? })
    }

    fn findings(&self, package: &PackageEntry) -> Vec<String> {
        let name = format!("{} {}", package.name, package.version);
        let mut findings = Vec::new();
        match &package.license {
            Some(expression) if allowed(expression, &self.licences) => {}
            Some(expression) => findings.push(format!("{name}: licence `{expression}` is not allowed")),
            None => findings.push(format!("{name}: names no licence")),
        }
        if self.bans.contains(&package.name) {
            findings.push(format!("{name}: is banned"));
        }
        if let Some(source) = &package.source
            && !self.registries.iter().any(|registry| source.strip_prefix("registry+") == Some(registry))
        {
            findings.push(format!("{name}: comes from {source}"));
        }
        findings
    }
}

/// The strings of the array `key` in table `[section]`: the part of TOML that deny.toml keeps to.
fn list(text: &str, section: &str, key: &str) -> Result<Vec<String>, String> {
    let header = format!("[{section}]");
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let table: Vec<&str> =
        lines.skip_while(|line| *line != header).skip(1).take_while(|line| !(line.starts_with('[') && line.ends_with(']'))).collect();
    let start = table
        .iter()
        .position(|line| line.split_once('=').is_some_and(|(name, _)| name.trim() == key))
        .ok_or_else(|| format!("has no list `{key}` in [{section}]"))?;
    let mut array = String::new();
    for line in &table[start..] {
        array.push_str(line);
        if line.contains(']') {
            break;
        }
    }
    Ok(array.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Whether an SPDX expression can be met by the licences in `list`.
fn allowed(expression: &str, list: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any_of(&tokens, &mut at, list) && at == tokens.len()
}

fn any_of(tokens: &[&str], at: &mut usize, list: &[String]) -> bool {
    let mut met = all_of(tokens, at, list);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all_of(tokens, at, list);
    }
    met
}

fn all_of(tokens: &[&str], at: &mut usize, list: &[String]) -> bool {
    let mut met = one(tokens, at, list);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(tokens, at, list);
    }
    met
}

fn one(tokens: &[&str], at: &mut usize, list: &[String]) -> bool {
    let Some(token) = tokens.get(*at) else { return false };
    *at += 1;
    if *token == "(" {
        let met = any_of(tokens, at, list);
        let closed = tokens.get(*at) == Some(&")");
        *at += 1;
        return met && closed;
    }
    let mut licence = (*token).to_owned();
    if tokens.get(*at) == Some(&"WITH") {
        licence = format!("{licence} WITH {}", tokens.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    list.contains(&licence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_as_spdx_says() {
        let list = ["MIT".to_owned(), "Apache-2.0".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned()];
        for met in ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "(MIT OR GPL-3.0) AND Apache-2.0", "Apache-2.0 WITH LLVM-exception"] {
            assert!(allowed(met, &list), "{met}");
        }
        for unmet in ["GPL-3.0", "MIT AND GPL-3.0", "GPL-3.0 WITH LLVM-exception", "(MIT", "MIT MIT", ""] {
            assert!(!allowed(unmet, &list), "{unmet}");
        }
    }

    #[test]
    fn lists_are_read_from_their_own_table() {
        let text = "[bans]\ndeny = [\"a\"]\n[licenses]\n# allow = [\"no\"]\nallow = [\n  \"MIT\", # yes\n  \"Zlib\",\n]\n[sources]\nallow-registry = [\"r\"]\n";
        let lists = Lists::read(text).unwrap();
        assert_eq!(lists, Lists { licences: vec!["MIT".into(), "Zlib".into()], bans: vec!["a".into()], registries: vec!["r".into()] });
        assert!(Lists::read("[bans]\n").is_err());
    }
}
