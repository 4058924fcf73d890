//! Where results that cost a read of the payload are kept between runs.

use std::path::{Path, PathBuf};

use plansmith_files::{Digest, Hasher, Identity};

use crate::FileAudit;

/// Of the form of what is stored; another one is never read.
const VERSION: &[u8] = b"audit 1";

fn entry(identity: &Identity, folder: &Path, header: Digest) -> PathBuf {
    let mut hasher = Hasher::default();
    hasher.field(VERSION);
    hasher.field(header.to_string().as_bytes());
    identity.hash_into(&mut hasher);
    folder.join("audit").join(format!("{}.json", hasher.finish()))
}

/// The audit of an earlier run; whatever cannot be read is as good as absent.
pub(crate) fn load(folder: &Path, identity: &Identity, header: Digest) -> Option<FileAudit> {
    let text = plansmith_files::read(&entry(identity, folder, header)).ok()?;
    let audit: FileAudit = serde_json::from_slice(&text).ok()?;
    (audit.size == identity.size()).then_some(audit)
}

/// Keeps an audit for later runs; a cache that cannot be written costs time, not correctness.
pub(crate) fn store(folder: &Path, identity: &Identity, header: Digest, audit: &FileAudit) {
    let path = entry(identity, folder, header);
    let Ok(text) = serde_json::to_vec(audit) else { return };
    if plansmith_files::create_dir_all(&folder.join("audit")).is_ok() {
        let _ = plansmith_files::write_atomic(&path, &text);
    }
}
