//! Converted weights streamed into one safetensors file.

use std::path::Path;

use indexmap::IndexMap;
use plansmith_files::Digest;
use plansmith_tensor::DType;

use crate::{Checkpoint, Conversion, Error};

/// A tensor of the file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Its name in the new file.
    pub name: String,
    /// Its name in the checkpoint.
    pub source: String,
    /// Its dtype in the new file: the stored one (bytes are copied) or one that [`crate::convert`] casts to.
    pub dtype: DType,
}

/// Where everything will lie, known before a byte is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The length field and the JSON text.
    pub header: Vec<u8>,
    /// Tensors by name, in payload order; offsets count from the start of the file.
    pub tensors: IndexMap<String, ConvertedTensor>,
    /// Size of the whole file in bytes.
    pub size: u64,
}

/// A tensor of the new file and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvertedTensor {
    /// Its name in the new file.
    pub name: String,
    /// Its name in the checkpoint.
    pub source: String,
    /// Its dtype in the new file.
    pub dtype: DType,
    /// Dimensions, as in the checkpoint.
    pub shape: Vec<u64>,
    /// First byte, counted from the start of the file.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
}

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

/// Lays the planned tensors out: those with wide elements first, so that each is aligned to its element, else in plan order.
///
/// # Errors
/// A source tensor is absent, a name is planned twice, or the cast is none that [`crate::convert`] does.
pub fn layout(_plan: &[Planned], _checkpoint: &Checkpoint) -> Result<Layout, Error> {
    todo!()
}

/// Writes the planned tensors into the safetensors file `target`, complete or not at all, streamed and cast on all cores.
///
/// `progress` is called with the number of payload bytes written so far, from several threads.
///
/// # Errors
/// As [`layout`]; a file cannot be read or written; [`Error::NotFinite`] where a source element is not finite or a cast
/// makes one infinite: then nothing is written, and every such tensor is listed.
pub fn write_safetensors(
    _target: &Path,
    _plan: &[Planned],
    _checkpoint: &Checkpoint,
    _progress: &(dyn Fn(u64) + Sync),
) -> Result<Written, Error> {
    todo!()
}
