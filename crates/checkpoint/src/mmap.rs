//! Weight files mapped into memory: the only unsafe code of this crate.
#![allow(unsafe_code, reason = "mapping a file is unsafe: another process could change it")]

use memmap2::{Mmap, MmapOptions, UncheckedAdvice};

use crate::Error;
use crate::header::TensorInfo;
use crate::weight_file::WeightFile;

/// The mapped files of a checkpoint. Pages count as resident memory once they were touched, until [`Mapped::release`].
#[derive(Debug)]
pub struct Mapped {
    files: Vec<Mmap>,
}

impl Mapped {
    pub(crate) fn new(files: &[WeightFile]) -> Result<Self, Error> {
        let map = |file: &WeightFile| {
            file.check_unchanged()?;
            // SAFETY: the map is read-only and its length is the size that the file has now. A process that writes into or truncates
            // the file while it is mapped could still change bytes under us or make a read fault; this is the accepted risk of mapped
            // weights, and no invariant of ours hangs on the values.
            let map = unsafe { MmapOptions::new().map(&file.file) };
            Ok(map.map_err(|error| plansmith_files::Error::new("map", &file.path, error))?)
        };
        Ok(Self { files: files.iter().map(map).collect::<Result<_, Error>>()? })
    }

    /// The stored bytes of `tensor`, little-endian, at any alignment.
    ///
    /// # Panics
    /// `tensor` is not of the checkpoint that was mapped.
    pub fn bytes(&self, tensor: &TensorInfo) -> &[u8] {
        let (begin, end) = (tensor.offset as usize, (tensor.offset + tensor.bytes) as usize);
        &self.files[tensor.file][begin..end]
    }

    /// Lets the system take back the memory of `tensor`'s pages; they are read again when touched again.
    ///
    /// Advice only: a system that refuses it keeps the pages, and no result changes.
    pub fn release(&self, tensor: &TensorInfo) {
        if tensor.bytes == 0 {
            return;
        }
        // SAFETY: the mapping is of a file and read-only, so that a page dropped is read from the file again; its bytes stay what they are.
        let _ = unsafe {
            self.files[tensor.file].unchecked_advise_range(UncheckedAdvice::DontNeed, tensor.offset as usize, tensor.bytes as usize)
        };
    }
}
