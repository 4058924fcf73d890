//! What the tests of models and workers share.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::path::{Path, PathBuf};

use plansmith_engine::{Flavor, Lookup, WorkerPaths};

mod program;

pub(crate) use self::program::program;

/// Made by `tools/make_engine_testdata.py`.
pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/engine").join(name)
}

/// The worker and libraries that the environment names.
pub(crate) fn paths() -> WorkerPaths {
    WorkerPaths::find(Flavor::Rtx, &Lookup::default()).unwrap()
}

/// The worker, started by a shell that does something first.
pub(crate) fn behind(folder: &Path, first: &str) -> WorkerPaths {
    let real = paths();
    let script = folder.join("worker");
    program(&script, &format!("#!/bin/sh\n{first}\nexec '{}'\n", real.worker.display()));
    WorkerPaths { worker: script, ..real }
}

/// A copy of the test decoder in a folder of its own below `parent`.
pub(crate) fn decoder_in(parent: &Path, folder: &str) -> PathBuf {
    let folder = parent.join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["decoder.onnx", "decoder.data"] {
        std::fs::copy(testdata(name), folder.join(name)).unwrap();
    }
    folder.join("decoder.onnx")
}

/// Names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
