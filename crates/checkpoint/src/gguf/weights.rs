//! `model.safetensors` from the blocks of a GGUF: decoded in parallel, in pieces, written where they belong.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use half::bf16;
use plansmith_files::{AtomicFile, Digest};
use plansmith_tensor::DType;
use rayon::iter::{ParallelBridge, ParallelIterator};
use serde_json::{Map, json};

use super::dequant::dequantize;
use super::error::{Error, Problem};
use super::tensors::{Mapped, Rows};

/// About as many elements as a piece has; a multiple of every block.
const PIECE_ELEMENTS: u64 = 1 << 17;
/// The key of the safetensors metadata that marks a file as written by an import; its value is the name of the GGUF.
pub(super) const MARK: &str = "plansmith.imported_from";

/// The key of the SHA-256 of each file that the import wrote beside the weights: a JSON object, by name. Tells whether one was edited since.
pub(super) const BESIDE: &str = "plansmith.imported_beside";

/// SHA-256 of files, by name.
pub(super) type Beside = BTreeMap<String, Digest>;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    /// Size of the file in bytes.
    pub(super) bytes: u64,
    /// Elements that bf16 does not hold exactly.
    pub(super) rounded: u64,
}

/// Where each tensor lies in the new file.
struct Layout {
    /// Length field and JSON text.
    header: Vec<u8>,
    /// First byte of each mapped tensor.
    offsets: Vec<u64>,
    size: u64,
}

impl Layout {
    fn new(mapped: &[Mapped<'_>], dtype: DType, source: &str, beside: &Beside) -> serde_json::Result<Self> {
        let mut entries = Map::new();
        let beside = serde_json::to_string(beside)?;
        entries.insert("__metadata__".to_owned(), json!({ "format": "pt", MARK: source, BESIDE: beside }));
        let mut end = 0;
        let mut offsets = Vec::with_capacity(mapped.len());
        for tensor in mapped {
            let begin = end;
            end += tensor.source.elements() * element_bytes(dtype);
            offsets.push(begin);
            let entry = json!({ "dtype": dtype.name(), "shape": tensor.source.shape, "data_offsets": [begin, end] });
            entries.insert(tensor.name.clone(), entry);
        }
        let mut text = serde_json::to_vec(&entries)?;
        text.resize(text.len().next_multiple_of(8), b' ');
        let mut header = (text.len() as u64).to_le_bytes().to_vec();
        header.append(&mut text);
        let payload = header.len() as u64;
        offsets.iter_mut().for_each(|offset| *offset += payload);
        Ok(Self { header, offsets, size: payload + end })
    }
}

fn element_bytes(dtype: DType) -> u64 {
    dtype.bits() as u64 / 8
}

/// A run of elements of one tensor that is decoded at once: whole rows of one head where rows change places.
struct Piece {
    tensor: usize,
    first: u64,
    elements: u64,
}

/// The pieces of all tensors, made as they are asked for.
fn pieces<'a>(mapped: &'a [Mapped<'a>]) -> impl Iterator<Item = Piece> + 'a {
    mapped.iter().enumerate().flat_map(|(tensor, mapped)| {
        let total = mapped.source.elements();
        let size = match mapped.rows {
            Rows::AsStored => PIECE_ELEMENTS,
            Rows::Paired { heads } => total / heads,
        };
        let starts = (0..total).step_by(usize::try_from(size).unwrap_or(usize::MAX).max(1));
        starts.map(move |first| Piece { tensor, first, elements: size.min(total - first) })
    })
}

/// The buffers of one thread.
#[derive(Default)]
struct Buffers {
    blocks: Vec<u8>,
    values: Vec<f32>,
    encoded: Vec<u8>,
}

/// What all threads share.
struct Job<'a> {
    source: &'a File,
    source_path: &'a Path,
    target: &'a File,
    target_path: &'a Path,
    dtype: DType,
    mapped: &'a [Mapped<'a>],
    offsets: &'a [u64],
}

/// Writes `mapped` as `dtype` (F32 or BF16) into `target`, complete or not at all; `beside` is remembered in it.
///
/// `progress` gets (bytes written, bytes to write) of the payload, from several threads.
pub(super) fn write(
    source_path: &Path,
    target_path: &Path,
    (mapped, beside): (&[Mapped<'_>], &Beside),
    dtype: DType,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Written, Error> {
    let source = plansmith_files::open(source_path)?;
    let name = source_path.file_name().unwrap_or_default().to_string_lossy();
    let write_failed = |error| plansmith_files::Error::new("write", target_path, error);
    let layout = Layout::new(mapped, dtype, &name, beside).map_err(|error| write_failed(error.into()))?;
    let target = AtomicFile::create(target_path)?;
    target.file().set_len(layout.size).map_err(write_failed)?;
    target.file().write_all_at(&layout.header, 0).map_err(write_failed)?;

    let job = Job { source: &source, source_path, target: target.file(), target_path, dtype, mapped, offsets: &layout.offsets };
    let (rounded, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let total = layout.size - layout.header.len() as u64;
    pieces(mapped).par_bridge().try_for_each_init(Buffers::default, |buffers, piece| {
        rounded.fetch_add(job.piece(&piece, buffers)?, Ordering::Relaxed);
        let bytes = piece.elements * element_bytes(dtype);
        progress(done.fetch_add(bytes, Ordering::Relaxed) + bytes, total);
        Ok::<_, Error>(())
    })?;
    target.commit()?;
    Ok(Written { bytes: layout.size, rounded: rounded.into_inner() })
}

impl Job<'_> {
    /// Decodes and writes one piece; returns how many elements were rounded.
    fn piece(&self, piece: &Piece, buffers: &mut Buffers) -> Result<u64, Error> {
        let mapped = &self.mapped[piece.tensor];
        let stored = mapped.source.ggml_type;
        let (block, block_bytes) = (stored.block_elements() as u64, stored.block_bytes() as u64);
        let length = piece.elements as usize;
        buffers.blocks.resize((piece.elements / block * block_bytes) as usize, 0);
        buffers.values.resize(length, 0.0);
        buffers.encoded.resize(length * element_bytes(self.dtype) as usize, 0);
        let from = mapped.source.offset + piece.first / block * block_bytes;
        plansmith_files::read_at(self.source, self.source_path, &mut buffers.blocks, from)?;
        if !dequantize(stored, &buffers.blocks, &mut buffers.values) {
            return Err(Problem::NotWeights { tensor: mapped.source.name.clone(), ggml_type: stored }.at(self.source_path));
        }

        let mut tally = Tally::default();
        match mapped.rows {
            Rows::AsStored => encode(&buffers.values, self.dtype, &mut buffers.encoded, &mut tally),
            Rows::Paired { .. } => {
                let columns = mapped.source.shape.get(1).copied().unwrap_or(1) as usize;
                let pairs = length / columns / 2;
                let stored_rows = (0..2).flat_map(|half| (0..pairs).map(move |pair| 2 * pair + half));
                let targets = buffers.encoded.chunks_exact_mut(columns * element_bytes(self.dtype) as usize);
                for (row, target) in stored_rows.zip(targets) {
                    encode(&buffers.values[row * columns..][..columns], self.dtype, target, &mut tally);
                }
            }
        }
        if tally.not_finite > 0 {
            let (tensor, dtype) = (mapped.source.name.clone(), self.dtype);
            return Err(Problem::NotFinite { tensor, count: tally.not_finite, first: piece.first, dtype }.at(self.source_path));
        }
        let to = self.offsets[piece.tensor] + piece.first * element_bytes(self.dtype);
        self.target.write_all_at(&buffers.encoded, to).map_err(|error| plansmith_files::Error::new("write", self.target_path, error))?;
        Ok(tally.rounded)
    }
}

#[derive(Default)]
struct Tally {
    rounded: u64,
    not_finite: u64,
}

/// Writes `values` as little-endian `dtype`; bf16 is rounded to nearest even.
fn encode(values: &[f32], dtype: DType, out: &mut [u8], tally: &mut Tally) {
    if dtype == DType::BF16 {
        for (value, out) in values.iter().zip(out.as_chunks_mut::<2>().0) {
            let short = bf16::from_f32(*value);
            tally.rounded += u64::from(short.to_f32() != *value);
            tally.not_finite += u64::from(!short.is_finite());
            *out = short.to_le_bytes();
        }
    } else {
        for (value, out) in values.iter().zip(out.as_chunks_mut::<4>().0) {
            tally.not_finite += u64::from(!value.is_finite());
            *out = value.to_le_bytes();
        }
    }
}
