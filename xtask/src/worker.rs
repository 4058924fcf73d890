//! The TensorRT worker: built in a target folder of its own, since its bindings serve one flavour a build.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::assets::Asset;
use crate::error::Error;
use crate::places;
use crate::process::Program;
use crate::setup::Setup;

const CRATE: &str = "plansmith-engine-worker";
const BINARY: &str = "plansmith-worker-rtx";

/// A way to build, check or test the worker.
#[derive(Debug)]
pub(crate) struct Worker {
    environment: Vec<(OsString, OsString)>,
    target: PathBuf,
}

impl Worker {
    /// Finds libclang and g++.
    pub(crate) fn new(setup: &Setup) -> Result<Self, Error> {
        let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let libclang = match (given("LIBCLANG_PATH"), setup.folder(Asset::Libclang)) {
            (Some(given), _) => given,
            (None, Some(folder)) => folder.as_os_str().to_owned(),
            (None, None) => return Err(missing("libclang is missing")),
        };
        let include = Program::new("g++").arg("-print-file-name=include").read().map_err(|error| missing(&error.to_string()))?;
        let arguments = given("BINDGEN_EXTRA_CLANG_ARGS").unwrap_or_else(|| format!("-isystem {}", include.stdout.trim()).into());
        let environment = vec![("LIBCLANG_PATH".into(), libclang), ("BINDGEN_EXTRA_CLANG_ARGS".into(), arguments)];
        Ok(Self { environment, target: places::target().join("worker-rtx") })
    }

    /// The same, built; with `allow_missing` none where it cannot be had, which the last lines say.
    pub(crate) fn built(setup: &mut Setup, allow_missing: bool) -> Result<Option<Self>, Error> {
        match Self::new(setup).and_then(|worker| worker.cargo("build").run().map(|()| worker)) {
            Ok(worker) => Ok(Some(worker)),
            Err(error) if allow_missing => {
                setup.leave_out("the TensorRT worker", &error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// `cargo VERB` for the worker. Always the release profile, so that demo and tests share one build of the bindings.
    pub(crate) fn cargo(&self, verb: &str) -> Program {
        Program::cargo()
            .args([verb, "--release", "--package", CRATE, "--target-dir"])
            .arg(&self.target)
            .envs(&self.environment)
            .current_dir(&places::root())
    }

    /// The executable, once it is built.
    pub(crate) fn executable(&self) -> PathBuf {
        self.target.join("release").join(BINARY)
    }

    /// The variable by which the command finds it.
    pub(crate) fn variable(&self) -> (OsString, OsString) {
        ("PLANSMITH_WORKER_RTX".into(), self.executable().into_os_string())
    }
}

fn missing(why: &str) -> Error {
    Error::Missing {
        what: "the TensorRT worker".into(),
        why: why.to_owned(),
        hint: "install g++ (Debian: apt install g++), and let `cargo xtask setup` get libclang or name its folder in LIBCLANG_PATH".into(),
    }
}
