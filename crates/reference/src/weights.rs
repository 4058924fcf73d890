//! The stored weights as fp32 rows: borrowed from the map where they lie there as such, widened where they do not.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use half::f16;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use plansmith_checkpoint::{Checkpoint, Mapped, TensorInfo};
use plansmith_families::{DecoderSpec, Weight};
use plansmith_tensor::DType;

use crate::Error;

/// The mapped weights of one spec, each checked for shape and type.
#[derive(Debug)]
pub(crate) struct Weights {
    mapped: Mapped,
    tensors: HashMap<String, Stored>,
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
    /// Maps the files of `checkpoint` and checks every weight of `spec` against them. Reads no payload.
    pub(crate) fn open(spec: &DecoderSpec, checkpoint: &Checkpoint) -> Result<Self, Error> {
        let mut tensors = HashMap::new();
        for weight in spec.weights() {
            tensors.insert(weight.name.clone(), Stored::of(weight, checkpoint.tensor(&weight.name)?)?);
        }
        Ok(Self { mapped: checkpoint.map()?, tensors })
    }

    /// A weight of the spec that was opened, as a matrix; a vector is a matrix of one row.
    pub(crate) fn matrix(&self, weight: &Weight) -> Matrix<'_> {
        let stored = &self.tensors[&weight.name];
        Matrix { mapped: &self.mapped, stored }
    }

    /// A copy of a weight of the spec that was opened, all of its elements in a row.
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
}

impl Matrix<'_> {
    pub(crate) fn row_count(&self) -> usize {
        self.stored.rows
    }

    pub(crate) fn column_count(&self) -> usize {
        self.stored.columns
    }

    /// Calls `read` with some rows in fp32, `[range, columns]`; gives their pages back to the system when it returns.
    ///
    /// They lie in the map where they are stored in fp32 at an aligned address (the format promises no alignment), else in a copy.
    pub(crate) fn with_rows<T>(&self, range: Range<usize>, read: impl FnOnce(&[f32]) -> T) -> T {
        let result = read(&self.rows(range.clone()));
        let (row, info) = (self.stored.row_bytes() as u64, &self.stored.info);
        let (first, count) = (range.start as u64, range.len() as u64);
        self.mapped.release(&TensorInfo { offset: info.offset + first * row, bytes: count * row, ..info.clone() });
        result
    }

    fn rows(&self, range: Range<usize>) -> Cow<'_, [f32]> {
        let row = self.stored.row_bytes();
        let bytes = &self.mapped.bytes(&self.stored.info)[range.start * row..range.end * row];
        match self.stored.dtype {
            Float::F32 => match native::<f32>(bytes) {
                Some(rows) => Cow::Borrowed(rows),
                None => Cow::Owned(bytes.as_chunks::<4>().0.iter().map(|&element| f32::from_le_bytes(element)).collect()),
            },
            Float::F16 => Cow::Owned(halves(bytes).reinterpret_cast::<f16>().to_f32_vec()),
            // The 16 bits are the upper half of the fp32 number.
            Float::BF16 => Cow::Owned(halves(bytes).iter().map(|&half| f32::from_bits(u32::from(half) << 16)).collect()),
        }
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
