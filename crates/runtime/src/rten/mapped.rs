//! A model over mapped files, and the files: the one place where their lifetimes are tied by hand.

#![allow(unsafe_code, reason = "rten takes borrowed data only as 'static")]

use std::collections::BTreeMap;

use memmap2::Mmap;
use rten::{Model, ModelOptions};

use super::guarded;
use super::rewrite::Rewritten;
use crate::Error;
use crate::error::Refusal;
use plansmith_onnx::DataFile;

/// Data files, mapped, in the order of their locations. They must not be changed or cut short while they are mapped.
pub(super) struct MappedFiles {
    maps: Vec<Mmap>,
    locations: Vec<String>,
}

impl MappedFiles {
    pub(super) fn open(files: &BTreeMap<String, DataFile>) -> Result<Self, Error> {
        let mut maps = Vec::with_capacity(files.len());
        for file in files.values() {
            let opened = plansmith_files::open(&file.path)?;
            // SAFETY: the file is opened for reading and mapped privately. That nobody cuts or rewrites a checkpoint that is in use is
            // what every reader of mapped weights relies on; `MappedFiles` says so.
            let map = unsafe { Mmap::map(&opened) }.map_err(|source| plansmith_files::Error::new("map", &file.path, source))?;
            maps.push(map);
        }
        Ok(Self { maps, locations: files.keys().cloned().collect() })
    }

    /// Index of the file that a graph calls `location`.
    pub(super) fn index(&self, location: &str) -> Option<usize> {
        self.locations.iter().position(|known| known == location)
    }

    /// Bytes of the file at `index`.
    pub(super) fn bytes(&self, index: usize) -> &[u8] {
        &self.maps[index]
    }
}

/// A model that reads its weights from mapped files.
pub(super) struct MappedModel {
    // Declared, and so dropped, before the files that it reads.
    model: Model,
    _files: MappedFiles,
}

impl MappedModel {
    pub(super) fn load(rewritten: Rewritten, files: MappedFiles, optimize: bool) -> Result<Self, Refusal> {
        let mut options = ModelOptions::with_all_ops();
        options.enable_optimization(optimize);
        for (index, map) in files.maps.iter().enumerate() {
            // SAFETY: the map's address does not change when `files` is moved, and the slice must live as long as whatever rten keeps of
            // it. rten keeps it in `options`, which ends with this function, and in the model, which `MappedModel` drops before the files
            // and never gives out; what a model returns from a run is copied.
            let bytes: &'static [u8] = unsafe { std::slice::from_raw_parts(map.as_ptr(), map.len()) };
            options.external_data_static(&Rewritten::mapped_name(index), bytes);
        }
        for (name, bytes) in rewritten.converted {
            options.external_data(&name, bytes);
        }
        let model = guarded(|| options.load(rewritten.graph).map_err(|error| refusal(&error)))?;
        Ok(Self { model, _files: files })
    }

    pub(super) fn model(&self) -> &Model {
        &self.model
    }
}

/// An operator, an attribute or a dtype that rten does not have is its own limit; anything else may be the graph's fault.
fn refusal(error: &rten::LoadError) -> Refusal {
    let message = error.to_string();
    let unsupported = error.kind() == rten::LoadErrorKind::OperatorInvalid || message.contains("unsupported data type");
    Refusal { message, unsupported }
}
