//! Where the worker and TensorRT's libraries are.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, Flavor};

/// What the user said about places; flags win over the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lookup {
    /// The worker executable.
    pub worker: Option<PathBuf>,
    /// The folder with TensorRT's libraries.
    pub libraries: Option<PathBuf>,
}

/// A worker executable and a folder of libraries for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerPaths {
    /// Its flavour.
    pub flavor: Flavor,
    /// The executable.
    pub worker: PathBuf,
    /// Holds [`WorkerPaths::LIBRARIES`].
    pub libraries: PathBuf,
}

impl WorkerPaths {
    /// File names of the libraries of the rtx flavour: core and parser.
    pub const LIBRARIES: [&str; 2] = ["libtensorrt_rtx.so.1", "libtensorrt_onnxparser_rtx.so.1"];
    /// File name of the worker of the rtx flavour.
    pub const WORKER: &str = "plansmith-worker-rtx";

    /// Looks for both: flag; `PLANSMITH_WORKER_RTX` and `PLANSMITH_TENSORRT_RTX_DIR`; for the worker beside the running executable; the
    /// cache folder; for the libraries `LD_LIBRARY_PATH`, then the packages of the `python3` on the path.
    ///
    /// # Errors
    /// [`Error::Missing`]: a place that was named holds nothing, or no place does; says what to install and how to point at it.
    /// [`Error::FlavorUnavailable`].
    pub fn find(flavor: Flavor, lookup: &Lookup) -> Result<Self, Error> {
        flavor.require_worker()?;
        Ok(Self { flavor, worker: worker(lookup)?, libraries: libraries(lookup)? })
    }
}

/// A place that somebody named, and by what.
fn named(flag: Option<&PathBuf>, option: &str, variable: &str) -> Option<(PathBuf, String)> {
    let flag = flag.map(|path| (path.clone(), option.to_owned()));
    flag.or_else(|| env::var_os(variable).filter(|value| !value.is_empty()).map(|value| (value.into(), format!("${variable}"))))
}

fn worker(lookup: &Lookup) -> Result<PathBuf, Error> {
    let missing = |looked| Error::Missing {
        what: format!("the TensorRT worker `{}`", WorkerPaths::WORKER),
        looked,
        hint: "`cargo xtask setup` builds it; or name one with PLANSMITH_WORKER_RTX".to_owned(),
    };
    if let Some((path, by)) = named(lookup.worker.as_ref(), "--worker", "PLANSMITH_WORKER_RTX") {
        return if plansmith_files::is_file(&path) { Ok(path) } else { Err(missing(vec![format!("{} (from {by})", path.display())])) };
    }
    let beside = env::current_exe().ok().and_then(|path| Some(path.parent()?.join(WorkerPaths::WORKER)));
    let cached = plansmith_files::cache_folder().map(|folder| folder.join(WorkerPaths::WORKER));
    let places: Vec<_> = beside.into_iter().chain(cached).collect();
    match places.iter().find(|path| plansmith_files::is_file(path)) {
        Some(path) => Ok(path.clone()),
        None => Err(missing(places.iter().map(|path| path.display().to_string()).collect())),
    }
}

fn holds_libraries(folder: &Path) -> bool {
    WorkerPaths::LIBRARIES.iter().all(|name| plansmith_files::is_file(&folder.join(name)))
}

fn libraries(lookup: &Lookup) -> Result<PathBuf, Error> {
    let missing = |looked| Error::Missing {
        what: format!("TensorRT for RTX ({} and {})", WorkerPaths::LIBRARIES[0], WorkerPaths::LIBRARIES[1]),
        looked,
        hint: "`cargo xtask setup` gets it, or `pip install tensorrt-rtx-cu12-libs`; it is NVIDIA's, under the NVIDIA Software License \
               Agreement that lies in the package. Name another folder with PLANSMITH_TENSORRT_RTX_DIR"
            .to_owned(),
    };
    if let Some((path, by)) = named(lookup.libraries.as_ref(), "--tensorrt", "PLANSMITH_TENSORRT_RTX_DIR") {
        return if holds_libraries(&path) { Ok(path) } else { Err(missing(vec![format!("{} (from {by})", path.display())])) };
    }
    let mut looked = Vec::new();
    if let Some(cache) = plansmith_files::cache_folder() {
        looked.push(cache.join("tensorrt-rtx-*").display().to_string());
        // Sorted by name: the last is the newest.
        let mut entries = plansmith_files::list(&cache).unwrap_or_default();
        entries.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("tensorrt-rtx-")));
        if let Some(path) = entries.into_iter().rev().find(|path| holds_libraries(path)) {
            return Ok(path);
        }
    }
    for folder in env::split_paths(&env::var_os("LD_LIBRARY_PATH").unwrap_or_default()).filter(|path| path.is_absolute()) {
        if holds_libraries(&folder) {
            return Ok(folder);
        }
        looked.push(folder.display().to_string());
    }
    match python_package() {
        Some(folder) if holds_libraries(&folder) => return Ok(folder),
        Some(folder) => looked.push(folder.display().to_string()),
        None => looked.push("package `tensorrt_rtx_libs` of python3".to_owned()),
    }
    Err(missing(looked))
}

/// The folder of the Python package that `tensorrt-rtx-cu12-libs` installs; it is found, not imported.
fn python_package() -> Option<PathBuf> {
    let script = "import importlib.util as u; s = u.find_spec('tensorrt_rtx_libs'); print(s.submodule_search_locations[0] if s else '')";
    let output = Command::new("python3").args(["-c", script]).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !path.trim().is_empty()).then(|| path.trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_was_named_is_the_only_one_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let lookup = Lookup { worker: Some(folder.path().join("none")), libraries: Some(folder.path().to_owned()) };
        let error = WorkerPaths::find(Flavor::Rtx, &lookup).unwrap_err();
        assert!(error.to_string().contains("none (from --worker)"), "{error}");
        assert!(error.hint().unwrap().contains("PLANSMITH_WORKER_RTX"));

        let worker = folder.path().join("worker");
        std::fs::write(&worker, "").unwrap();
        let lookup = Lookup { worker: Some(worker.clone()), ..lookup };
        std::fs::write(folder.path().join(WorkerPaths::LIBRARIES[0]), "").unwrap();
        let error = WorkerPaths::find(Flavor::Rtx, &lookup).unwrap_err();
        let hint = error.hint().unwrap();
        assert!(hint.contains("tensorrt-rtx-cu12-libs") && hint.contains("NVIDIA Software License Agreement"), "{hint}");

        std::fs::write(folder.path().join(WorkerPaths::LIBRARIES[1]), "").unwrap();
        let found = WorkerPaths::find(Flavor::Rtx, &lookup).unwrap();
        assert_eq!((found.worker, found.libraries), (worker, folder.path().to_owned()));
    }

    #[test]
    fn the_enterprise_flavour_is_refused() {
        let error = WorkerPaths::find(Flavor::Enterprise, &Lookup::default()).unwrap_err();
        assert_eq!(error.to_string(), "the enterprise flavour of TensorRT has no worker yet");
    }
}
