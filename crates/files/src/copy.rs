//! Byte-identical copies without reading the payload through this process.

use std::io;
use std::path::Path;

use crate::error::Context as _;
use crate::{AtomicFile, Error};

/// How a copy was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyMethod {
    /// The file system shares the blocks; no byte moved.
    Reflink,
    /// The kernel copied the bytes.
    Copy,
}

/// Whether the file system can share a file's blocks between folders: tried, on the first file of `from`, with a file in `to` that is removed
/// again.
pub fn can_reflink(from: &Path, to: &Path) -> bool {
    let first = crate::list(from).ok().and_then(|paths| paths.into_iter().find(|path| path.is_file()));
    let attempt = |path: &Path| {
        let target = AtomicFile::create(&to.join(".reflink")).ok()?;
        rustix::fs::ioctl_ficlone(target.file(), crate::open(path).ok()?).ok()
    };
    first.and_then(|path| attempt(&path)).is_some()
}

/// Copies `from` to `to` byte for byte, by reflink where the file system can, complete or not at all.
///
/// # Errors
/// Those of the system.
pub fn copy_file(from: &Path, to: &Path) -> Result<CopyMethod, Error> {
    let mut source = crate::open(from)?;
    let mut target = AtomicFile::create(to)?;
    let method = match rustix::fs::ioctl_ficlone(target.file(), &source) {
        Ok(()) => CopyMethod::Reflink,
        Err(_) => {
            // `io::copy` between files uses copy_file_range, then sendfile, and falls back to a small buffer.
            io::copy(&mut source, target.file_mut()).at("copy", from)?;
            CopyMethod::Copy
        }
    };
    target.commit()?;
    Ok(method)
}
