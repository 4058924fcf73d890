//! The stored weights as fp32 rows: borrowed from the map where they lie there as such, widened where they do not.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use faer::MatRef;
use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use plansmith_checkpoint::{Checkpoint, Mapped, TensorInfo};
use plansmith_families::Weight;
use plansmith_tensor::DType;

use crate::{Error, Rounding, Significand};

/// Weights of up to so many bytes stay in memory between steps. Those of larger models are given back after each use, since memory must not
/// grow with the model; for small ones mapping the pages again costs decoding more than reading them.
const KEPT: u64 = 1 << 30;

/// Mapped weights, each checked for shape and type; and how numbers are rounded, since whoever computes with weights needs both.
#[derive(Debug)]
pub(crate) struct Weights {
    mapped: Mapped,
    tensors: HashMap<String, Stored>,
    keeps_pages: bool,
    pub(crate) rounding: Rounding,
}

#[derive(Debug)]
struct Stored {
    info: TensorInfo,
    dtype: Float,
    rows: usize,
    columns: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Float {
    F32,
    F16,
    BF16,
}

impl Float {
    fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F32 => Some(Float::F32),
            DType::F16 => Some(Float::F16),
            DType::BF16 => Some(Float::BF16),
            _ => None,
        }
    }

    fn bytes(self) -> usize {
        match self {
            Float::F32 => 4,
            Float::F16 | Float::BF16 => 2,
        }
    }
}

impl Weights {
    /// Maps the files of `checkpoint` and checks every one of `weights` against them. Reads no payload.
    pub(crate) fn open<'a>(weights: impl IntoIterator<Item = &'a Weight>, checkpoint: &Checkpoint) -> Result<Self, Error> {
        let mut tensors = HashMap::new();
        for weight in weights {
            tensors.insert(weight.name.clone(), Stored::of(weight, checkpoint.tensor(&weight.name)?)?);
        }
        let keeps_pages = tensors.values().map(|stored| stored.info.bytes).sum::<u64>() <= KEPT;
        Ok(Self { mapped: checkpoint.map()?, tensors, keeps_pages, rounding: Rounding::default() })
    }

    /// What is left of an operation's result where it is stored.
    pub(crate) fn keep(&self, values: &mut [f32]) {
        if let Some(significand) = self.rounding.activations {
            significand.round_in_parallel(values);
        }
    }

    /// A weight that was opened, as a matrix; a vector is a matrix of one row, a scalar one of one element.
    pub(crate) fn matrix(&self, weight: &Weight) -> Matrix<'_> {
        let stored = &self.tensors[&weight.name];
        Matrix { mapped: &self.mapped, stored, keeps_pages: self.keeps_pages, rounding: self.rounding.weights }
    }

    /// A copy of a weight that was opened, all of its elements in a row.
    pub(crate) fn vector(&self, weight: &Weight) -> Vec<f32> {
        let matrix = self.matrix(weight);
        matrix.with_rows(0..matrix.row_count(), <[f32]>::to_vec)
    }
}

impl Stored {
    fn of(weight: &Weight, info: &TensorInfo) -> Result<Self, Error> {
        let name = || weight.name.clone();
        if info.shape != weight.shape {
            let (found, wanted) = (info.shape.clone(), weight.shape.clone());
            return Err(Error::Shape { name: name(), found, wanted, because: weight.because.clone() });
        }
        let dtype = Float::of(info.dtype).ok_or_else(|| Error::DType { name: name(), dtype: info.dtype })?;
        let columns = info.shape.last().copied().unwrap_or(1);
        let rows = info.elements().checked_div(columns).unwrap_or(0);
        let too_large = |_| Error::TooLarge { name: name(), shape: info.shape.clone() };
        let (rows, columns) = (usize::try_from(rows).map_err(too_large)?, usize::try_from(columns).map_err(too_large)?);
        Ok(Self { info: info.clone(), dtype, rows, columns })
    }

    fn row_bytes(&self) -> usize {
        self.columns * self.dtype.bytes()
    }
}

/// A stored `[rows, columns]` matrix.
pub(crate) struct Matrix<'a> {
    mapped: &'a Mapped,
    stored: &'a Stored,
    keeps_pages: bool,
    rounding: Option<Significand>,
}

impl Matrix<'_> {
    pub(crate) fn row_count(&self) -> usize {
        self.stored.rows
    }

    pub(crate) fn column_count(&self) -> usize {
        self.stored.columns
    }

    /// Calls `read` with some rows in fp32, `[range, columns]`; [releases](Matrix::release) them when it returns.
    ///
    /// They lie in the map where they are stored in fp32 at an aligned address (the format promises no alignment), else in a copy.
    pub(crate) fn with_rows<T>(&self, range: Range<usize>, read: impl FnOnce(&[f32]) -> T) -> T {
        let result = read(&self.widen(self.bytes(range.clone())));
        self.release(range);
        result
    }

    /// Calls `read` with a part of some rows in fp32, in the map where they lie there as such, else in a copy. Keeps their pages.
    pub(crate) fn with_tile<T>(&self, rows: Range<usize>, columns: Range<usize>, read: impl FnOnce(MatRef<'_, f32>) -> T) -> T {
        let (dtype, row) = (self.stored.dtype, self.stored.columns);
        let bytes = self.bytes(rows.clone());
        if let Some(elements) = native::<f32>(bytes).filter(|_| dtype == Float::F32 && self.rounding.is_none()) {
            return read(MatRef::from_row_major_slice(elements, rows.len(), row).subcols(columns.start, columns.len()));
        }
        let mut tile = Vec::with_capacity(rows.len() * columns.len());
        for row in bytes.chunks_exact(self.stored.row_bytes()) {
            widen_onto(&mut tile, dtype, &row[columns.start * dtype.bytes()..columns.end * dtype.bytes()]);
        }
        if let Some(significand) = self.rounding {
            significand.round(&mut tile);
        }
        read(MatRef::from_row_major_slice(&tile, rows.len(), columns.len()))
    }

    /// Gives the pages of some rows of a large model back to the system.
    pub(crate) fn release(&self, range: Range<usize>) {
        if self.keeps_pages {
            return;
        }
        let (row, info) = (self.stored.row_bytes() as u64, &self.stored.info);
        let (first, count) = (range.start as u64, range.len() as u64);
        self.mapped.release(&TensorInfo { offset: info.offset + first * row, bytes: count * row, ..info.clone() });
    }

    /// Stored elements in fp32, rounded where that is asked for.
    fn widen<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [f32]> {
        let mut elements = widen(self.stored.dtype, bytes);
        if let Some(significand) = self.rounding {
            significand.round(elements.to_mut());
        }
        elements
    }

    fn bytes(&self, range: Range<usize>) -> &[u8] {
        let row = self.stored.row_bytes();
        &self.mapped.bytes(&self.stored.info)[range.start * row..range.end * row]
    }
}

/// Stored elements in fp32.
fn widen(dtype: Float, bytes: &[u8]) -> Cow<'_, [f32]> {
    match native::<f32>(bytes).filter(|_| dtype == Float::F32) {
        Some(elements) => Cow::Borrowed(elements),
        None => {
            let mut wide = Vec::with_capacity(bytes.len() / dtype.bytes());
            widen_onto(&mut wide, dtype, bytes);
            Cow::Owned(wide)
        }
    }
}

/// Appends stored elements in fp32.
fn widen_onto(wide: &mut Vec<f32>, dtype: Float, bytes: &[u8]) {
    match dtype {
        Float::F32 => wide.extend(bytes.as_chunks::<4>().0.iter().map(|&element| f32::from_le_bytes(element))),
        Float::F16 => {
            let (stored, first) = (halves(bytes), wide.len());
            wide.resize(first + stored.len(), 0.0);
            stored.reinterpret_cast::<f16>().convert_to_f32_slice(&mut wide[first..]);
        }
        // The 16 bits are the upper half of the fp32 number.
        Float::BF16 => wide.extend(halves(bytes).iter().map(|&half| f32::from_bits(u32::from(half) << 16))),
    }
}

/// Little-endian bytes as elements in place, where address and machine allow it.
fn native<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Option<&[T]> {
    if cfg!(target_endian = "little") { bytemuck::try_cast_slice(bytes).ok() } else { None }
}

/// Little-endian bytes as 16-bit elements.
fn halves(bytes: &[u8]) -> Cow<'_, [u16]> {
    match native::<u16>(bytes) {
        Some(elements) => Cow::Borrowed(elements),
        None => Cow::Owned(bytes.as_chunks::<2>().0.iter().map(|&element| u16::from_le_bytes(element)).collect()),
    }
}
