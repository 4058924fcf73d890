//! The one ONNX Runtime that a process can load.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ort::logging::LogLevel;

use super::library::{OrtLibrary, find_ort};
use crate::{Error, RuntimeKind};

/// The loaded library and its environment.
#[derive(Clone)]
pub(super) struct Environment {
    pub(super) handle: ort::environment::Environment,
    pub(super) library: OrtLibrary,
}

/// Never dropped: a process may have only one environment, so it stays for the next session.
static LOADED: Mutex<Option<Environment>> = Mutex::new(None);

impl Environment {
    /// The environment of this process, made at the first call from the library that [`find_ort`] finds.
    pub(super) fn get(explicit: Option<&Path>) -> Result<Self, Error> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*loaded, explicit) {
            (Some(environment), None) => return Ok(environment.clone()),
            (Some(environment), Some(_)) => {
                let wanted = find_ort(explicit)?;
                if wanted.path == environment.library.path {
                    return Ok(environment.clone());
                }
                return Err(Error::LibraryLoaded { loaded: environment.library.path.clone(), wanted: wanted.path });
            }
            (None, _) => {}
        }
        let library = find_ort(explicit)?;
        let start = |message: String| Error::Start { runtime: RuntimeKind::Ort, message };
        let handle = ort::init_from(&library.path)
            .map_err(|error| start(error.to_string()))?
            .with_name("plansmith")
            .with_telemetry(false)
            // What it would print comes back in its errors; a library does not print.
            .with_logger(Arc::new(|_, _, _, _, _| {}))
            .build()
            .map_err(|error| start(error.to_string()))?;
        handle.set_log_level(LogLevel::Error);
        Ok(loaded.insert(Self { handle, library }).clone())
    }
}
