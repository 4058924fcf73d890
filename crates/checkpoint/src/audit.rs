//! The payload read once: SHA-256 of each file, NaN, infinity and range of each tensor.

use std::path::Path;

use indexmap::IndexMap;
use plansmith_files::Digest;

use crate::{Checkpoint, Error, Scan};

/// The audit of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Audit {
    /// One entry a file, in the order of [`Checkpoint::files`].
    pub files: Vec<FileAudit>,
}

/// The audit of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileAudit {
    /// The file's name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256.
    pub sha256: Digest,
    /// Its tensors by name, in payload order.
    pub tensors: IndexMap<String, TensorAudit>,
    /// Whether this was known from an earlier run.
    pub cached: bool,
}

/// What a tensor holds; `None` where its dtype is no float that we scan (integers, packed formats).
pub type TensorAudit = Option<Scan>;

impl Audit {
    /// The first tensor that holds NaN or infinity: file, tensor, what was seen.
    pub fn first_not_finite(&self) -> Option<(&FileAudit, &str, Scan)> {
        todo!()
    }
}

/// Audits every file, streamed. `cache` is the folder that remembers results (see [`crate::cache_folder`]), by device, inode, size and
/// times of the file. `progress` is called with the number of bytes done, from several threads.
///
/// # Errors
/// A file cannot be read or changed meanwhile. A cache that cannot be read or written is no error.
pub fn audit(_checkpoint: &Checkpoint, _cache: Option<&Path>, _progress: &(dyn Fn(u64) + Sync)) -> Result<Audit, Error> {
    todo!()
}

/// Audits the file with index `file`; see [`audit`].
///
/// # Errors
/// As [`audit`].
pub fn audit_file(
    _checkpoint: &Checkpoint,
    _file: usize,
    _cache: Option<&Path>,
    _progress: &(dyn Fn(u64) + Sync),
) -> Result<FileAudit, Error> {
    todo!()
}
