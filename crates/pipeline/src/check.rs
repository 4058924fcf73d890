//! Checking a bundle offline: every file against the manifest, the manifest against itself, and what clients read against each other.

use std::path::Path;

use plansmith_attest::VerifyingKey;
use plansmith_engine::{PlanManifest, manifest_path};
use plansmith_files::{Digest, sha256_file};
use rayon::prelude::*;
use serde::Serialize;

use crate::Error;
use crate::clients::check_clients;
use crate::manifest::{MANIFEST_NAME, Manifest, files_below};
use crate::provenance::{self, Signed};

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
    /// Who signed it.
    pub signed: Signed,
    /// Whether it was compared with its source.
    pub against_source: bool,
}

/// What a bundle is held against besides itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Against<'a> {
    /// The digest that its manifest should have.
    pub digest: Option<Digest>,
    /// Who should have signed it.
    pub key: Option<&'a VerifyingKey>,
    /// The checkpoint that it should be made of.
    pub source: Option<&'a Path>,
}

/// Checks the bundle in `folder`: every file against the manifest, the manifest and the provenance against themselves and one another.
///
/// # Errors
/// Names the first file, by path, that is missing, too many, of another size or other bytes.
pub fn check_bundle(folder: &Path, against: &Against<'_>) -> Result<Checked, Error> {
    let (manifest, manifest_sha256) = files(folder, against.digest)?;
    let signed = provenance::check(folder, &manifest, manifest_sha256, against.key)?;
    if let Some(source) = against.source {
        is_made_of(folder, &manifest, source)?;
    }
    let bytes = manifest.files.values().map(|record| record.bytes).sum();
    let files = manifest.files.len();
    let (verdict, not_executed) = (manifest.verdict.verdict, manifest.verdict.not_executed);
    Ok(Checked { manifest_sha256, files, bytes, verdict, not_executed, signed, against_source: against.source.is_some() })
}

/// Holds the source that the manifest names to the files of the checkpoint in `source`.
fn is_made_of(folder: &Path, manifest: &Manifest, source: &Path) -> Result<(), Error> {
    for (name, &wanted) in &manifest.source.sha256 {
        let path = source.join(name);
        let found = sha256_file(&path)?;
        if found != wanted {
            let manifest = folder.join(MANIFEST_NAME);
            let problem = format!("has the SHA-256 {found}; the bundle was made of {wanted} ({})", manifest.display());
            return Err(Error::Bundle { path, problem });
        }
    }
    Ok(())
}

/// Checks every file against the manifest, and the manifest against itself and `digest`.
pub(crate) fn files(folder: &Path, digest: Option<Digest>) -> Result<(Manifest, Digest), Error> {
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
    let check = |(name, path): &(String, std::path::PathBuf)| -> Result<(), Error> {
        let record = manifest.files[name];
        let bytes = plansmith_files::metadata(path)?.len();
        if bytes != record.bytes {
            return Err(fail(name, format!("has {bytes} bytes; the manifest says {}", record.bytes)));
        }
        let sha256 = sha256_file(path)?;
        if sha256 != record.sha256 {
            return Err(fail(name, format!("has the SHA-256 {sha256}; the manifest says {}", record.sha256)));
        }
        Ok(())
    };
    for plan in &manifest.plans {
        check_weights(folder, &plan.path, &manifest)?;
    }
    // Collected in order, so that the file named is the first by path whichever was read first.
    let results: Vec<Result<(), Error>> = found.par_iter().map(check).collect();
    results.into_iter().collect::<Result<(), Error>>()?;
    check_clients(folder, &manifest.graphs.iter().map(|graph| graph.path.clone()).collect::<Vec<_>>())?;
    Ok((manifest, manifest_sha256))
}

/// The data files that a stripped plan needs have to be in the bundle, and the very ones that it was built from.
fn check_weights(bundle: &Path, plan: &str, manifest: &Manifest) -> Result<(), Error> {
    let path = bundle.join(plan);
    let beside = PlanManifest::read(&manifest_path(&path))?;
    let root = plansmith_files::canonicalize(bundle)?;
    for (data, record) in beside.data_files(&path)? {
        let data = plansmith_files::canonicalize(&data)?;
        let name = data.strip_prefix(&root).ok().map(|name| name.to_string_lossy().into_owned());
        let known = name.and_then(|name| manifest.files.get(&name));
        if known.is_none_or(|known| known.sha256 != record.sha256) {
            let problem = format!("needs weights from {} with the SHA-256 {}, which is not in the bundle", record.name, record.sha256);
            return Err(Error::Bundle { path, problem });
        }
    }
    Ok(())
}
