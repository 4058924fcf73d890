//! Converted weights streamed into one safetensors file.

use std::os::unix::fs::FileExt as _;
use std::path::Path;

use indexmap::IndexMap;
use plansmith_files::{AtomicFile, Digest, Hasher};
use plansmith_tensor::DType;

use crate::convert::{Conversion, convert};
use crate::layout::{ConvertedTensor, Layout, Planned, layout};
use crate::ordered::{Buffers, PIECE, default_threads, in_order};
use crate::{Checkpoint, Error, RangeProblem, TensorInfo};

/// A file that was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// Where everything lies.
    pub layout: Layout,
    /// SHA-256 of the file.
    pub sha256: Digest,
    /// What the cast of each tensor saw, in payload order; all finite, or nothing would have been written.
    pub conversions: IndexMap<String, Conversion>,
}

/// A run of at most [`PIECE`] stored bytes and where its cast goes.
struct Piece<'a> {
    source: &'a TensorInfo,
    dtype: DType,
    /// Which tensor of the layout.
    tensor: usize,
    /// First stored byte, counted from the start of the source file.
    from: u64,
    /// How many stored bytes.
    bytes: u64,
    /// Index of the first element.
    element: u64,
    /// First byte in the new file.
    to: u64,
}

/// Writes the planned tensors into the safetensors file `target`, complete or not at all, streamed and cast on all cores.
///
/// `progress` is called with the number of stored bytes read and written so far, which only grows, from several threads.
///
/// # Errors
/// As [`layout`]; a file cannot be read or written; [`Error::NotFinite`] where a source element is not finite or a cast
/// makes one infinite: then nothing is written, and every such tensor is listed.
pub fn write_safetensors(
    target: &Path,
    plan: &[Planned],
    checkpoint: &Checkpoint,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Written, Error> {
    let layout = layout(plan, checkpoint)?;
    let pieces = pieces(&layout, checkpoint)?;
    let file = AtomicFile::create(target)?;
    let write = |bytes: &[u8], offset| {
        let written = file.file().write_all_at(bytes, offset);
        written.map_err(|error| Error::File(plansmith_files::Error::new("write", target, error)))
    };

    write(&layout.header, 0)?;
    let mut hasher = Hasher::default();
    hasher.update(&layout.header);
    let mut seen = vec![Conversion::default(); layout.tensors.len()];
    let mut done = 0;
    let work = |index: usize, buffers: &mut Buffers| {
        let piece: &Piece<'_> = &pieces[index];
        checkpoint.file_of(piece.source).read_at(buffers.input(piece.bytes), piece.from)?;
        buffers.output.clear();
        let conversion = convert(piece.source.dtype, piece.dtype, &buffers.input, &mut buffers.output)?;
        write(&buffers.output, piece.to)?;
        Ok(conversion)
    };
    in_order(pieces.len(), default_threads(), work, |index, buffers, conversion| {
        let piece = &pieces[index];
        hasher.update(&buffers.output);
        seen[piece.tensor].append(piece.element, &conversion);
        done += piece.bytes;
        progress(done);
    })?;

    let problems = problems(&layout, &seen, checkpoint)?;
    if !problems.is_empty() {
        return Err(Error::NotFinite { target: target.to_owned(), problems });
    }
    file.commit()?;
    let conversions = layout.tensors.keys().cloned().zip(seen).collect();
    Ok(Written { layout, sha256: hasher.finish(), conversions })
}

fn pieces<'a>(layout: &Layout, checkpoint: &'a Checkpoint) -> Result<Vec<Piece<'a>>, Error> {
    let mut pieces = Vec::new();
    for (tensor, ConvertedTensor { source, dtype, offset, .. }) in layout.tensors.values().enumerate() {
        let source = checkpoint.tensor(source)?;
        let widths = source.dtype.bytes().zip(dtype.bytes()).filter(|_| source.dtype != *dtype);
        let mut start = 0;
        while start < source.bytes {
            // A piece is a whole number of elements of every dtype, packed ones included.
            let (element, position) = match widths {
                Some((from, to)) => (start / from as u64, start / from as u64 * to as u64),
                None => (start * 8 / source.dtype.bits() as u64, start),
            };
            let bytes = PIECE.min(source.bytes - start);
            pieces.push(Piece { source, dtype: *dtype, tensor, from: source.offset + start, bytes, element, to: offset + position });
            start += bytes;
        }
    }
    Ok(pieces)
}

fn problems(layout: &Layout, seen: &[Conversion], checkpoint: &Checkpoint) -> Result<Vec<RangeProblem>, Error> {
    let unfit = layout.tensors.values().zip(seen).filter(|(_, seen)| !seen.is_finite());
    unfit
        .map(|(tensor, seen)| {
            Ok(RangeProblem {
                tensor: tensor.source.clone(),
                file: checkpoint.file_of(checkpoint.tensor(&tensor.source)?).name.clone(),
                dtype: tensor.dtype,
                nan: seen.source.nan,
                infinite: seen.source.infinite,
                overflow: seen.overflow,
            })
        })
        .collect()
}
