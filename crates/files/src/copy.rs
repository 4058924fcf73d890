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
