//! What tells a file and its content apart from every other, without reading it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Error, Hasher};

/// The kernel stamps files by a clock that ticks every 1 to 10 ms: a file must be older than this before its times identify it.
const TICK: Duration = Duration::from_millis(20);

/// Where a file lies, its size, and when it and what is said of it were changed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    /// Of the file that `metadata` was read from.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Of the file at `path`, or of what it leads to.
    ///
    /// # Errors
    /// Those of the system.
    pub fn at(path: &Path) -> Result<Self, Error> {
        crate::metadata(path).map(|metadata| Self::of(&metadata))
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Waits until a later change of the file would show in its times. Returns whether it will: not where a clock is ahead of ours.
    pub fn settle(&self) -> bool {
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

    /// Gives every number to `hasher`.
    pub fn hash_into(&self, hasher: &mut Hasher) {
        let Self { device, inode, size, modified, changed } = self;
        for number in [*device, *inode, *size] {
            hasher.field(&number.to_le_bytes());
        }
        for number in [modified.0, modified.1, changed.0, changed.1] {
            hasher.field(&number.to_le_bytes());
        }
    }
}
