//! The payload read once: SHA-256 of each file, NaN, infinity and range of each tensor.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use indexmap::IndexMap;
use plansmith_files::{Digest, Hasher, Identity};
use rayon::iter::{IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _};
use serde::{Deserialize, Serialize};

use crate::cache;
use crate::ordered::{Buffers, PIECE, default_threads, in_order};
use crate::{Checkpoint, Error, Scan, TensorInfo, WeightFile, scan};

/// The audit of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Audit {
    /// One entry a file, in the order of [`Checkpoint::files`].
    pub files: Vec<FileAudit>,
}

/// The audit of one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileAudit {
    /// The file's name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its SHA-256.
    pub sha256: Digest,
    /// Its tensors by name, in payload order; `None` where the dtype is no float that we scan (integers, packed formats).
    pub tensors: IndexMap<String, Option<Scan>>,
    /// Whether this was known from an earlier run.
    #[serde(skip)]
    pub cached: bool,
}

impl Audit {
    /// What was seen in the tensor `name`.
    pub fn scan(&self, name: &str) -> Option<Scan> {
        self.files.iter().find_map(|file| *file.tensors.get(name)?)
    }

    /// The tensors that hold NaN or infinity: file, tensor, what was seen.
    pub fn not_finite(&self) -> impl Iterator<Item = (&FileAudit, &str, Scan)> {
        let scans = self.files.iter().flat_map(|file| file.tensors.iter().map(move |(name, scan)| (file, name.as_str(), *scan)));
        scans.filter_map(|(file, name, scan)| Some((file, name, scan.filter(|scan| !scan.is_finite())?)))
    }
}

/// Audits every file, streamed, in bounded memory.
///
/// `cache` is the folder that remembers results (see [`plansmith_files::cache_folder`]), by device, inode, size and times of the file; `None`
/// reads everything anew. `progress` is called with the number of bytes done so far, from several threads.
///
/// # Errors
/// A file cannot be read, or changed meanwhile. A cache that cannot be read or written is no error.
pub fn audit(checkpoint: &Checkpoint, cache: Option<&Path>, progress: &(dyn Fn(u64) + Sync)) -> Result<Audit, Error> {
    let count = checkpoint.files().len();
    let threads = default_threads().div_ceil(count.clamp(1, default_threads()));
    let done = AtomicU64::new(0);
    let add = |bytes| progress(done.fetch_add(bytes, Ordering::Relaxed) + bytes);
    let one = |(index, file): (usize, &WeightFile)| audit_one(file, &tensors_of(checkpoint, index), threads, cache, &add);
    Ok(Audit { files: checkpoint.files().par_iter().enumerate().map(one).collect::<Result<_, _>>()? })
}

/// Audits the file with index `file` of [`Checkpoint::files`]; see [`audit`].
///
/// # Errors
/// As [`audit`].
///
/// # Panics
/// There is no such file.
pub fn audit_file(checkpoint: &Checkpoint, file: usize, cache: Option<&Path>, progress: &(dyn Fn(u64) + Sync)) -> Result<FileAudit, Error> {
    let done = AtomicU64::new(0);
    let add = |bytes| progress(done.fetch_add(bytes, Ordering::Relaxed) + bytes);
    audit_one(&checkpoint.files()[file], &tensors_of(checkpoint, file), default_threads(), cache, &add)
}

fn tensors_of(checkpoint: &Checkpoint, file: usize) -> Vec<&TensorInfo> {
    checkpoint.tensors().values().filter(|tensor| tensor.file == file).collect()
}

fn audit_one(
    file: &WeightFile,
    tensors: &[&TensorInfo],
    threads: usize,
    cache: Option<&Path>,
    add: &(dyn Fn(u64) + Sync),
) -> Result<FileAudit, Error> {
    file.check_unchanged()?;
    let identity = Identity::of(&file.stat()?);
    let folder = cache.filter(|_| identity.settle());
    if let Some(known) = folder.and_then(|folder| cache::load(folder, &identity, file.header_digest)) {
        add(file.size);
        return Ok(FileAudit { name: file.name.clone(), cached: true, ..known });
    }

    let audit = read_all(file, tensors, threads, add)?;
    if let Some(folder) = folder.filter(|_| file.stat().is_ok_and(|now| Identity::of(&now) == identity)) {
        cache::store(folder, &identity, file.header_digest, &audit);
    }
    file.check_unchanged()?;
    Ok(audit)
}

/// A run of at most [`PIECE`] bytes of a file: of its header, or of one tensor.
struct Piece<'a> {
    offset: u64,
    bytes: u64,
    tensor: Option<(usize, &'a TensorInfo)>,
}

/// Cuts the file, in order: the header, then its tensors, which tile the payload.
fn pieces<'a>(file: &WeightFile, tensors: &[&'a TensorInfo]) -> Vec<Piece<'a>> {
    let header = (0, file.payload, None);
    let payload = tensors.iter().enumerate().map(|(index, tensor)| (tensor.offset, tensor.bytes, Some((index, *tensor))));
    let mut pieces = Vec::new();
    for (begin, bytes, tensor) in std::iter::once(header).chain(payload) {
        for start in (0..bytes).step_by(PIECE as usize) {
            pieces.push(Piece { offset: begin + start, bytes: PIECE.min(bytes - start), tensor });
        }
    }
    pieces
}

fn read_all(file: &WeightFile, tensors: &[&TensorInfo], threads: usize, add: &(dyn Fn(u64) + Sync)) -> Result<FileAudit, Error> {
    let pieces = pieces(file, tensors);
    let mut scans: Vec<Option<Scan>> = tensors.iter().map(|tensor| scan(tensor.dtype, &[])).collect();
    let mut hasher = Hasher::default();
    let work = |index: usize, buffers: &mut Buffers| {
        let piece: &Piece<'_> = &pieces[index];
        file.read_at(buffers.input(piece.bytes), piece.offset)?;
        Ok(piece.tensor.and_then(|(_, tensor)| scan(tensor.dtype, &buffers.input)))
    };
    in_order(pieces.len(), threads, work, |index, buffers, seen| {
        let piece = &pieces[index];
        hasher.update(&buffers.input);
        if let (Some((tensor, info)), Some(seen)) = (piece.tensor, seen) {
            let first = (piece.offset - info.offset) * 8 / info.dtype.bits() as u64;
            if let Some(scan) = &mut scans[tensor] {
                scan.append(first, &seen);
            }
        }
        add(piece.bytes);
    })?;
    let tensors = tensors.iter().map(|tensor| tensor.name.clone()).zip(scans).collect();
    Ok(FileAudit { name: file.name.clone(), size: file.size, sha256: hasher.finish(), tensors, cached: false })
}
