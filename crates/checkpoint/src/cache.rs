//! Where results that cost a read of the payload are kept between runs.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plansmith_files::{Digest, Hasher};

use crate::FileAudit;

/// Of the form of what is stored; another one is never read.
const VERSION: &[u8] = b"audit 1";

/// The kernel stamps files by a clock that ticks every 1 to 10 ms: a file must be older than this before its times identify it.
const TICK: Duration = Duration::from_millis(20);

/// What tells a file and its content apart from every other, without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Waits until a later change of the file would show in its times. Returns whether it will: not where a clock is ahead of ours.
    pub(crate) fn settle(&self) -> bool {
        let (seconds, nanos) = self.changed;
        let since_epoch = Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanos).unwrap_or(0));
        match SystemTime::now().duration_since(UNIX_EPOCH + since_epoch) {
            Ok(age) => {
                std::thread::sleep(TICK.saturating_sub(age));
                true
            }
            Err(ahead) if ahead.duration() <= TICK => {
                std::thread::sleep(TICK + ahead.duration());
                true
            }
            Err(_) => false,
        }
    }

    fn entry(&self, folder: &Path, header: Digest) -> PathBuf {
        let Self { device, inode, size, modified, changed } = self;
        let mut hasher = Hasher::default();
        hasher.field(VERSION);
        hasher.field(header.to_string().as_bytes());
        for number in [*device, *inode, *size] {
            hasher.field(&number.to_le_bytes());
        }
        for number in [modified.0, modified.1, changed.0, changed.1] {
            hasher.field(&number.to_le_bytes());
        }
        folder.join("audit").join(format!("{}.json", hasher.finish()))
    }
}

/// The audit of an earlier run; whatever cannot be read is as good as absent.
pub(crate) fn load(folder: &Path, identity: &Identity, header: Digest) -> Option<FileAudit> {
    let text = plansmith_files::read(&identity.entry(folder, header)).ok()?;
    let audit: FileAudit = serde_json::from_slice(&text).ok()?;
    (audit.size == identity.size).then_some(audit)
}

/// Keeps an audit for later runs; a cache that cannot be written costs time, not correctness.
pub(crate) fn store(folder: &Path, identity: &Identity, header: Digest, audit: &FileAudit) {
    let path = identity.entry(folder, header);
    let Ok(text) = serde_json::to_vec(audit) else { return };
    if plansmith_files::create_dir_all(&folder.join("audit")).is_ok() {
        let _ = plansmith_files::write_atomic(&path, &text);
    }
}
