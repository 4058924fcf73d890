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
    /// Holds [`Flavor::libraries`].
    pub libraries: PathBuf,
}

impl WorkerPaths {
    /// Looks for both: flag; `PLANSMITH_WORKER_RTX` and `PLANSMITH_TENSORRT_RTX_DIR`, or `PLANSMITH_WORKER_ENTERPRISE` and
    /// `PLANSMITH_TENSORRT_DIR`; for the worker beside the running executable, and in the target folder that this lies in, where cargo
    /// builds it; the cache folder; for the libraries `LD_LIBRARY_PATH`, then the packages of the `python3` on the path.
    ///
    /// # Errors
    /// [`Error::Missing`]: a place that was named holds nothing, or no place does; says what to install and how to point at it.
    pub fn find(flavor: Flavor, lookup: &Lookup) -> Result<Self, Error> {
        Ok(Self { flavor, worker: worker(flavor, lookup)?, libraries: Self::find_libraries(flavor, lookup)? })
    }

    /// Looks for the folder of the libraries alone, as [`WorkerPaths::find`] does.
    ///
    /// # Errors
    /// As there.
    pub fn find_libraries(flavor: Flavor, lookup: &Lookup) -> Result<PathBuf, Error> {
        libraries(flavor, lookup)
    }
}

/// A place that somebody named, and by what.
fn named(flag: Option<&PathBuf>, option: &str, variable: &str) -> Option<(PathBuf, String)> {
    let flag = flag.map(|path| (path.clone(), option.to_owned()));
    flag.or_else(|| env::var_os(variable).filter(|value| !value.is_empty()).map(|value| (value.into(), format!("${variable}"))))
}

fn worker(flavor: Flavor, lookup: &Lookup) -> Result<PathBuf, Error> {
    let (name, [variable, _]) = (flavor.worker_name(), flavor.variables());
    let builds = match flavor {
        Flavor::Rtx => "`cargo xtask setup` builds it".to_owned(),
        Flavor::Enterprise => "`cargo build --release -p plansmith-engine-worker --no-default-features --features enterprise --target-dir \
                               target/worker-enterprise` builds it"
            .to_owned(),
    };
    let missing = |looked| Error::Missing {
        what: format!("the TensorRT worker `{name}`"),
        looked,
        hint: format!("{builds}; or name one with {variable}"),
    };
    if let Some((path, by)) = named(lookup.worker.as_ref(), "--worker", variable) {
        return if plansmith_files::is_file(&path) { Ok(path) } else { Err(missing(vec![format!("{} (from {by})", path.display())])) };
    }
    let near = env::current_exe().map(|own| near(&own, flavor)).unwrap_or_default();
    let cached = plansmith_files::cache_folder().map(|folder| folder.join(name));
    let places: Vec<_> = near.into_iter().chain(cached).collect();
    match places.iter().find(|path| plansmith_files::is_file(path)) {
        Some(path) => Ok(path.clone()),
        None => Err(missing(places.iter().map(|path| path.display().to_string()).collect())),
    }
}

/// Places of a worker near an executable: beside it, and where `cargo xtask setup`, or the hint's command, builds it for the same target
/// folder: `target/worker-rtx/release` of `target/release/plansmith`.
fn near(own: &Path, flavor: Flavor) -> Vec<PathBuf> {
    let name = flavor.worker_name();
    let built = |target: &Path| target.join(format!("worker-{flavor}/release")).join(name);
    let folder = own.parent();
    folder.map(|folder| folder.join(name)).into_iter().chain(folder.and_then(Path::parent).map(built)).collect()
}

fn holds_libraries(flavor: Flavor, folder: &Path) -> bool {
    flavor.libraries().iter().all(|name| plansmith_files::is_file(&folder.join(name)))
}

fn libraries(flavor: Flavor, lookup: &Lookup) -> Result<PathBuf, Error> {
    let ([core, parser], [_, variable], [package, module, prefix]) = (flavor.libraries(), flavor.variables(), flavor.packages());
    let gets = match flavor {
        Flavor::Rtx => "`cargo xtask setup` gets it, or ",
        Flavor::Enterprise => "",
    };
    let missing = |looked| Error::Missing {
        what: format!("{} ({core} and {parser})", flavor.title()),
        looked,
        hint: format!(
            "{gets}`pip install {package}`; it is NVIDIA's, under the NVIDIA Software License Agreement that lies in the package. Name \
             another folder with {variable}"
        ),
    };
    if let Some((path, by)) = named(lookup.libraries.as_ref(), "--tensorrt-dir", variable) {
        return if holds_libraries(flavor, &path) { Ok(path) } else { Err(missing(vec![format!("{} (from {by})", path.display())])) };
    }
    let mut looked = Vec::new();
    if let Some(cache) = plansmith_files::cache_folder() {
        looked.push(cache.join(format!("{prefix}*")).display().to_string());
        // Sorted by name: the last is the newest.
        let mut entries = plansmith_files::list(&cache).unwrap_or_default();
        entries.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)));
        if let Some(path) = entries.into_iter().rev().find(|path| holds_libraries(flavor, path)) {
            return Ok(path);
        }
    }
    for folder in env::split_paths(&env::var_os("LD_LIBRARY_PATH").unwrap_or_default()).filter(|path| path.is_absolute()) {
        if holds_libraries(flavor, &folder) {
            return Ok(folder);
        }
        looked.push(folder.display().to_string());
    }
    match python_package(module) {
        Some(folder) if holds_libraries(flavor, &folder) => return Ok(folder),
        Some(folder) => looked.push(folder.display().to_string()),
        None => looked.push(format!("package `{module}` of python3")),
    }
    Err(missing(looked))
}

/// The folder of a Python package; it is found, not imported.
fn python_package(module: &str) -> Option<PathBuf> {
    let script = "import importlib.util as u, sys; s = u.find_spec(sys.argv[1]); print(s.submodule_search_locations[0] if s else '')";
    let output = Command::new("python3").args(["-c", script, module]).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
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
        std::fs::write(folder.path().join(Flavor::Rtx.libraries()[0]), "").unwrap();
        let error = WorkerPaths::find(Flavor::Rtx, &lookup).unwrap_err();
        let hint = error.hint().unwrap();
        assert!(hint.contains("tensorrt-rtx-cu12-libs") && hint.contains("NVIDIA Software License Agreement"), "{hint}");

        std::fs::write(folder.path().join(Flavor::Rtx.libraries()[1]), "").unwrap();
        let found = WorkerPaths::find(Flavor::Rtx, &lookup).unwrap();
        assert_eq!((found.worker, found.libraries), (worker, folder.path().to_owned()));
    }

    #[test]
    fn a_worker_is_looked_for_where_cargo_builds_it() {
        let places = near(Path::new("/source/target/release/plansmith"), Flavor::Rtx);
        let wanted = ["/source/target/release/plansmith-worker-rtx", "/source/target/worker-rtx/release/plansmith-worker-rtx"];
        assert_eq!(places, wanted.map(PathBuf::from));
        // That of the hint: cargo's `--target-dir target/worker-enterprise`.
        let places = near(Path::new("/source/target/release/plansmith"), Flavor::Enterprise);
        assert_eq!(places[1], Path::new("/source/target/worker-enterprise/release/plansmith-worker-enterprise"));
    }

    #[test]
    fn the_flavours_are_looked_for_apart() {
        let folder = tempfile::tempdir().unwrap();
        let lookup = Lookup { worker: Some(folder.path().join("none")), libraries: None };
        let error = WorkerPaths::find(Flavor::Enterprise, &lookup).unwrap_err();
        assert!(error.to_string().starts_with("the TensorRT worker `plansmith-worker-enterprise` not found"), "{error}");
        assert!(error.hint().unwrap().contains("--features enterprise"), "{error}");

        let worker = folder.path().join("worker");
        std::fs::write(&worker, "").unwrap();
        for name in Flavor::Rtx.libraries() {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let lookup = Lookup { worker: Some(worker), libraries: Some(folder.path().to_owned()) };
        let error = WorkerPaths::find(Flavor::Enterprise, &lookup).unwrap_err();
        assert!(error.to_string().starts_with("TensorRT (libnvinfer.so.11 and libnvonnxparser.so.11) not found"), "{error}");
    }
}
