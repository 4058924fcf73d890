//! The calls of `std::fs` that we use, with paths in their errors.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt, OpenOptionsExt as _};
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

/// Bytes of the largest file that is read as a whole.
const WHOLE: u64 = 1 << 30;

/// Opens a regular file for reading. Anything else is refused at once: a pipe could be waited for, and a device read, without end.
///
/// # Errors
/// Those of the system; it is no regular file.
pub fn open_regular(path: &Path) -> Result<File, Error> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).custom_flags(nonblocking).open(path).at("read", path)?;
    if file.metadata().at("read", path)?.is_file() {
        return Ok(file);
    }
    Err(Error::new("read", path, io::Error::other("it is no regular file")))
}

/// Reads a whole regular file of at most 1 GiB; for small files.
///
/// # Errors
/// Those of the system; it is no regular file, or larger.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    read_limited(path, WHOLE)
}

/// Reads a whole regular file of at most `most` bytes.
///
/// # Errors
/// As [`read`].
pub fn read_limited(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let file = open_regular(path)?;
    let size = file.metadata().at("read", path)?.len();
    if size > most {
        return Err(Error::new("read", path, io::Error::other(format!("it has {size} bytes; at most {most} are read"))));
    }
    whole(file, path, size, most)
}

/// Reads a whole file of at most `most` bytes that may be a pipe, as shells make for `<(…)`.
///
/// # Errors
/// Those of the system; there are more bytes.
pub fn read_stream(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    whole(open(path)?, path, 0, most)
}

fn whole(file: File, path: &Path, size: u64, most: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).at("read", path)?;
    if bytes.len() as u64 > most {
        return Err(Error::new("read", path, io::Error::other(format!("it has more than {most} bytes"))));
    }
    Ok(bytes)
}

/// Reads the whole file as UTF-8; as [`read`].
///
/// # Errors
/// As [`read`], or the file is not UTF-8.
pub fn read_to_string(path: &Path) -> Result<String, Error> {
    text(read(path)?, path)
}

/// Bytes of the file at `path` as UTF-8.
///
/// # Errors
/// They are not.
pub fn text(bytes: Vec<u8>, path: &Path) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|_| Error::new("read", path, io::Error::other("it is not UTF-8")))
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

/// The folder that `path` lies in: the working folder where it names none.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_read_by_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o600), 0).unwrap();
        let said = |result: Result<Vec<u8>, Error>| result.map_err(|error| error.source.to_string());
        for path in [&pipe, Path::new("/dev/zero"), folder.path()] {
            assert_eq!(said(read(path)), Err("it is no regular file".to_owned()), "{}", path.display());
        }
        let sparse = folder.path().join("sparse");
        File::create(&sparse).unwrap().set_len(1 << 42).unwrap();
        assert_eq!(said(read(&sparse)), Err("it has 4398046511104 bytes; at most 1073741824 are read".to_owned()));
        assert_eq!(said(read_stream(Path::new("/dev/zero"), 100)), Err("it has more than 100 bytes".to_owned()));
        let small = folder.path().join("small");
        fs::write(&small, "four").unwrap();
        assert_eq!(said(read(&small)), Ok(b"four".to_vec()));
        assert_eq!(said(read_limited(&small, 4)), Ok(b"four".to_vec()));
        assert_eq!(said(read_limited(&small, 3)), Err("it has 4 bytes; at most 3 are read".to_owned()));
        // A file of /proc says that it is empty.
        assert!(!read(Path::new("/proc/self/status")).unwrap().is_empty());
    }
}
