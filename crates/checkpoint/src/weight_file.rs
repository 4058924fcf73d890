//! One safetensors file, open, with its header read and checked.

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use plansmith_files::{Digest, Hasher};

use crate::Error;
use crate::foreign::{Foreign, SNIFF_BYTES};
use crate::header::{Header, HeaderError, PREFIX_BYTES};

/// A safetensors file of a checkpoint. It stays open, so that a file renamed over it does not mix two saves.
#[derive(Debug)]
pub struct WeightFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its name without a folder.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// First byte of the payload, counted from the start of the file.
    pub payload: u64,
    /// SHA-256 of the length field and the JSON text.
    pub header_digest: Digest,
    /// The header's `__metadata__`.
    pub metadata: IndexMap<String, String>,
    /// Whether the path is a symbolic link, as in a hub's cache folder.
    pub is_link: bool,
    pub(crate) file: File,
}

/// One safetensors file by itself, as [`inspect_file`] sees it.
#[derive(Debug)]
pub struct FileSummary {
    /// The file.
    pub file: WeightFile,
    /// Its checked header.
    pub header: Header,
}

/// Opens one safetensors file and checks its header, in O(header).
///
/// # Errors
/// It is no regular file, cannot be read, or is no valid safetensors file.
pub fn inspect_file(path: &Path) -> Result<FileSummary, Error> {
    // Looked at before it is opened: opening a FIFO would wait for its writer.
    if !plansmith_files::metadata(path)?.is_file() {
        return Err(Error::NotAFile(path.to_owned()));
    }
    let file = plansmith_files::open(path)?;
    let size = stat(&file, path)?.len();
    let (header, header_digest) = read_header(&file, path, size)?;
    let file = WeightFile {
        path: path.to_owned(),
        name: path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        size,
        payload: header.payload,
        header_digest,
        metadata: header.metadata.clone(),
        is_link: path.is_symlink(),
        file,
    };
    Ok(FileSummary { file, header })
}

fn stat(file: &File, path: &Path) -> Result<Metadata, Error> {
    Ok(file.metadata().map_err(|error| plansmith_files::Error::new("examine", path, error))?)
}

fn read_header(file: &File, path: &Path, size: u64) -> Result<(Header, Digest), Error> {
    let invalid = |source| Error::Header { path: path.to_owned(), source };
    let mut start = [0; SNIFF_BYTES];
    let start = &mut start[..SNIFF_BYTES.min(usize::try_from(size).unwrap_or(SNIFF_BYTES))];
    plansmith_files::read_at(file, path, start, 0)?;
    let length = Header::json_length(start, size).map_err(invalid)?;

    // At most 100 MB, and no more than the file has.
    let mut json = vec![0; usize::try_from(length).map_err(|_| invalid(HeaderError::TooLong { length }))?];
    plansmith_files::read_at(file, path, &mut json, PREFIX_BYTES)?;
    let header = Header::parse(&json, size).map_err(|error| match (error, Foreign::sniff(start)) {
        (HeaderError::Json(_), Some(foreign)) if foreign != Foreign::Json => invalid(HeaderError::Foreign(foreign)),
        (error, _) => invalid(error),
    })?;

    let mut hasher = Hasher::default();
    hasher.field(&json);
    Ok((header, hasher.finish()))
}

impl WeightFile {
    /// Fills `buffer` from `offset`, without a map.
    ///
    /// # Errors
    /// The file cannot be read, or is shorter than it was.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        Ok(plansmith_files::read_at(&self.file, &self.path, buffer, offset)?)
    }

    /// Metadata of the open file, whatever its path leads to by now.
    pub(crate) fn stat(&self) -> Result<Metadata, Error> {
        stat(&self.file, &self.path)
    }

    /// Fails if the size is not the one that was seen at opening.
    pub(crate) fn check_unchanged(&self) -> Result<(), Error> {
        match self.stat()?.len() {
            now if now == self.size => Ok(()),
            now => Err(Error::Changed { path: self.path.clone(), was: self.size, now }),
        }
    }
}
