//! The calls of `std::fs` that we use, with paths in their errors.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::error::Context as _;

/// Opens for reading.
///
/// # Errors
/// Those of the system.
pub fn open(path: &Path) -> Result<File, Error> {
    File::open(path).at("open", path)
}

/// Creates or truncates for writing. For files that others may see use [`crate::AtomicFile`].
///
/// # Errors
/// Those of the system.
pub fn create(path: &Path) -> Result<File, Error> {
    File::create(path).at("create", path)
}

/// Reads the whole file; for small files.
///
/// # Errors
/// Those of the system.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).at("read", path)
}

/// Reads the whole file as UTF-8; for small files.
///
/// # Errors
/// Those of the system, or the file is not UTF-8.
pub fn read_to_string(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).at("read", path)
}

/// Fills `buffer` from `offset` of an open file; `path` names it in errors.
///
/// # Errors
/// Those of the system; the file ends before the buffer is full.
pub fn read_at(file: &File, path: &Path, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
    file.read_exact_at(buffer, offset).at("read", path)
}

/// Metadata, following links.
///
/// # Errors
/// Those of the system.
pub fn metadata(path: &Path) -> Result<Metadata, Error> {
    fs::metadata(path).at("examine", path)
}

/// Whether `path` is a folder (links followed).
pub fn is_dir(path: &Path) -> bool {
    path.is_dir()
}

/// Whether `path` is a regular file (links followed).
pub fn is_file(path: &Path) -> bool {
    path.is_file()
}

/// Entries of a folder, sorted by name.
///
/// # Errors
/// Those of the system.
pub fn list(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).at("list", path)? {
        entries.push(entry.at("list", path)?.path());
    }
    entries.sort();
    Ok(entries)
}

/// Creates a folder and its parents.
///
/// # Errors
/// Those of the system.
pub fn create_dir_all(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).at("create folder", path)
}

/// Removes a file; one that is absent is no error.
///
/// # Errors
/// Those of the system.
pub fn remove_file(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.at("remove", path),
    }
}

/// Removes a folder and what it holds; one that is absent is no error.
///
/// # Errors
/// Those of the system.
pub fn remove_dir_all(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.at("remove folder", path),
    }
}

/// Renames within one file system.
///
/// # Errors
/// Those of the system.
pub fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).at("rename to", to)
}

/// Opens a file to read it and to write at its end, creating it where it is absent.
///
/// # Errors
/// Those of the system.
pub fn append(path: &Path) -> Result<File, Error> {
    File::options().read(true).append(true).create(true).open(path).at("open", path)
}

/// Makes `link` lead to `target`, a path relative to the link's folder; replaces what was there.
///
/// # Errors
/// Those of the system.
pub fn symlink(target: &Path, link: &Path) -> Result<(), Error> {
    remove_file(link)?;
    std::os::unix::fs::symlink(target, link).at("link", link)
}

/// Bytes that may still be written to the file system of `path`, or of the nearest folder above it that exists.
///
/// # Errors
/// Those of the system.
pub fn free_space(path: &Path) -> Result<u64, Error> {
    let there = path.ancestors().find(|folder| folder.exists()).filter(|folder| !folder.as_os_str().is_empty());
    let there = there.unwrap_or(Path::new("."));
    let status = rustix::fs::statvfs(there).map_err(std::io::Error::from).at("ask for free space of", there)?;
    Ok(status.f_bavail.saturating_mul(status.f_frsize))
}

/// The absolute path without links.
///
/// # Errors
/// Those of the system.
pub fn canonicalize(path: &Path) -> Result<PathBuf, Error> {
    fs::canonicalize(path).at("resolve", path)
}
