//! Checking a bundle offline: every file against the manifest, the manifest against itself, and what clients read against each other.

use std::path::Path;

use plansmith_files::{Digest, sha256_file};
use rayon::prelude::*;
use serde::Serialize;

use crate::Error;
use crate::clients::check_clients;
use crate::manifest::{Manifest, files_below};

/// A bundle that is whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// SHA-256 of manifest.json: what a release records.
    pub manifest_sha256: Digest,
    /// Files that were hashed.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// What was proved of them.
    pub verdict: String,
    /// Artifacts that were not executed where the bundle was built.
    pub not_executed: Vec<String>,
}

/// Checks the bundle in `folder`; with `digest`, also that its manifest is the one meant.
///
/// # Errors
/// Names the first file, by path, that is missing, too many, of another size or other bytes.
pub fn check_bundle(folder: &Path, digest: Option<Digest>) -> Result<Checked, Error> {
    let (manifest, manifest_sha256) = Manifest::read(folder)?;
    let fail = |name: &str, problem: String| Error::Bundle { path: folder.join(name), problem };
    if let Some(wanted) = digest.filter(|&wanted| wanted != manifest_sha256) {
        return Err(fail("manifest.json", format!("has the digest {manifest_sha256}; {wanted} is wanted")));
    }
    let found = files_below(folder)?;
    if let Some((name, _)) = found.iter().find(|(name, _)| !manifest.files.contains_key(name)) {
        return Err(fail(name, "is not in the manifest".into()));
    }
    if let Some(name) = manifest.files.keys().find(|name| found.binary_search_by(|(found, _)| found.cmp(name)).is_err()) {
        return Err(fail(name, "is in the manifest and missing from the bundle".into()));
    }
    let check = |(name, path): &(String, std::path::PathBuf)| -> Result<u64, Error> {
        let record = manifest.files[name];
        let bytes = plansmith_files::metadata(path)?.len();
        if bytes != record.bytes {
            return Err(fail(name, format!("has {bytes} bytes; the manifest says {}", record.bytes)));
        }
        let sha256 = sha256_file(path)?;
        if sha256 != record.sha256 {
            return Err(fail(name, format!("has the SHA-256 {sha256}; the manifest says {}", record.sha256)));
        }
        Ok(bytes)
    };
    // Collected in order, so that the file named is the first by path whichever was read first.
    let sizes: Vec<Result<u64, Error>> = found.par_iter().map(check).collect();
    let bytes = sizes.into_iter().sum::<Result<u64, Error>>()?;
    check_clients(folder, &manifest.graphs.iter().map(|graph| graph.path.clone()).collect::<Vec<_>>())?;
    let (verdict, not_executed) = (manifest.verdict.verdict, manifest.verdict.not_executed);
    Ok(Checked { manifest_sha256, files: found.len(), bytes, verdict, not_executed })
}
