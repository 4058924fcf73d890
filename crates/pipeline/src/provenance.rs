//! `provenance.json`: an in-toto statement about a bundle's manifest and files, which a signature covers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use plansmith_attest::{
    BuildDefinition, Builder, Envelope, Metadata, Provenance, Resource, RunDetails, SecretKey, Statement, VerifyingKey, rfc3339,
};
use plansmith_files::{Digest, write_atomic, write_atomic_from_outside};
use plansmith_verify::Outcome;
use serde_json::json;

use crate::Error;
use crate::manifest::{MANIFEST_NAME, Manifest};

/// The statement's file name.
pub const PROVENANCE_NAME: &str = "provenance.json";
/// The file name of its signature.
pub const SIGNATURE_NAME: &str = "provenance.dsse.json";

const BUILD_TYPE: &str = "urn:plansmith:build:v1";
/// What may be said of a machine that nobody vouches for.
const BUILDER: &str = "urn:plansmith:builder:local";

/// Writes the statement about the bundle in `folder`, whose manifest has `manifest_sha256`. Of two builds it differs in its times and host only.
pub(crate) fn write(folder: &Path, manifest: &Manifest, manifest_sha256: Digest, started: SystemTime) -> Result<(), Error> {
    let bytes = statement(manifest, manifest_sha256, started).seal(PROVENANCE_NAME);
    Ok(write_atomic(&folder.join(PROVENANCE_NAME), &bytes)?)
}

fn statement(manifest: &Manifest, manifest_sha256: Digest, started: SystemTime) -> Statement {
    let source = &manifest.source;
    let mut dependencies: Vec<Resource> =
        source.sha256.iter().map(|(name, &sha256)| Resource::file(&format!("{}/{name}", source.checkpoint), sha256)).collect();
    let commit =
        |commit: &String| Resource { name: source.checkpoint.clone(), digest: BTreeMap::from([("gitCommit".to_owned(), commit.clone())]) };
    dependencies.extend(source.revision.iter().map(commit));
    let host = plansmith_files::read_to_string(Path::new("/proc/sys/kernel/hostname")).unwrap_or_default();
    let version = [("plansmith", manifest.plansmith.as_str()), ("host", host.trim())];
    let version = version.into_iter().filter(|(_, text)| !text.is_empty()).map(|(name, text)| (name.to_owned(), text.to_owned()));
    let predicate = Provenance {
        build_definition: BuildDefinition {
            build_type: BUILD_TYPE.to_owned(),
            external_parameters: json!({ "pipeline": manifest.name, "recipe": manifest.recipe }),
            internal_parameters: json!({ "graphs": manifest.graphs, "plans": manifest.plans, "verdict": manifest.verdict }),
            resolved_dependencies: dependencies,
        },
        run_details: RunDetails {
            builder: Builder { id: BUILDER.to_owned(), version: version.collect() },
            metadata: Metadata { started_on: rfc3339(started), finished_on: rfc3339(SystemTime::now()) },
            byproducts: Vec::new(),
        },
    };
    Statement::new(subject(manifest, manifest_sha256), predicate)
}

fn subject(manifest: &Manifest, manifest_sha256: Digest) -> Vec<Resource> {
    let files = manifest.files.iter().map(|(name, record)| Resource::file(name, record.sha256));
    std::iter::once(Resource::file(MANIFEST_NAME, manifest_sha256)).chain(files).collect()
}

/// The bytes of the statement in `folder`, which is about this manifest.
fn read(folder: &Path, manifest: &Manifest, manifest_sha256: Digest) -> Result<Vec<u8>, Error> {
    let path = folder.join(PROVENANCE_NAME);
    let (statement, bytes) = Statement::read(&path)?;
    if statement.subject == subject(manifest, manifest_sha256) {
        Ok(bytes)
    } else {
        Err(Error::Bundle { path, problem: "is about other files than the manifest".into() })
    }
}

/// Who signed a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Signed {
    /// Nobody.
    No,
    /// Somebody: no key was given to check it with.
    NotChecked,
    /// The key that was given.
    ByKey,
}

/// Checks that the statement is about this manifest, and that `key` signed it.
pub(crate) fn check(folder: &Path, manifest: &Manifest, manifest_sha256: Digest, key: Option<&VerifyingKey>) -> Result<Signed, Error> {
    let bytes = read(folder, manifest, manifest_sha256)?;
    let signature = folder.join(SIGNATURE_NAME);
    if signature.symlink_metadata().is_err() {
        return match key {
            Some(_) => Err(Error::Bundle { path: signature, problem: "is missing: nobody signed this bundle".into() }),
            None => Ok(Signed::No),
        };
    }
    let envelope = Envelope::read(&signature)?;
    let payload = match key {
        Some(key) => envelope.open(&signature, key)?,
        None => envelope.payload(&signature)?,
    };
    if payload != bytes {
        return Err(Error::Bundle { path: signature, problem: format!("is a signature of another {PROVENANCE_NAME}") });
    }
    Ok(if key.is_some() { Signed::ByKey } else { Signed::NotChecked })
}

/// Signs the bundle in `folder`, after every file was checked; a signature that is there is replaced. Returns the signature's path.
///
/// # Errors
/// Those of [`crate::check_bundle`]; the bundle's verdict is not that it agrees; the file cannot be written.
pub fn sign_bundle(folder: &Path, key: &SecretKey) -> Result<PathBuf, Error> {
    // A signature that is there says nothing of what is signed now.
    let (manifest, manifest_sha256) = crate::check::files(folder, None)?;
    let verdict = &manifest.verdict.verdict;
    if verdict != Outcome::Agree.name() {
        let problem = format!("says {verdict}: what is not proved to compute what its source computes is not signed");
        return Err(Error::Bundle { path: folder.join(MANIFEST_NAME), problem });
    }
    let envelope = Envelope::sign(&read(folder, &manifest, manifest_sha256)?, key);
    let path = folder.join(SIGNATURE_NAME);
    // A stray file would be a change of the bundle.
    write_atomic_from_outside(&path, &envelope.to_bytes())?;
    Ok(path)
}
