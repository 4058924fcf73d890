//! What programs that load a bundle in the tests need: onnxruntime-genai, Optimum, transformers.js and a C header, each pinned.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plansmith_files::{self as files, TempFolder};

use crate::bench::Peers;
use crate::error::Error;
use crate::header;
use crate::places;
use crate::process::{Program, tail};
use crate::python::Python;
use crate::setup::Setup;

/// What is there of them.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pythons: Option<Pythons>,
    /// The folder `node_modules` that holds transformers.js.
    modules: Option<PathBuf>,
    /// The folder of ONNX Runtime's C header.
    header: Option<PathBuf>,
}

/// Interpreters, each with the packages that it is named after.
#[derive(Debug)]
struct Pythons {
    genai: PathBuf,
    optimum: PathBuf,
    graph_tools: PathBuf,
}

impl Clients {
    /// Gets what is missing. What cannot be had is an error, or with `allow_missing` is left out by name.
    pub(crate) fn get(setup: &mut Setup, allow_missing: bool) -> Result<Self, Error> {
        let mut clients = Self::default();
        match pythons() {
            Ok(pythons) => clients.pythons = Some(pythons),
            Err(error) if allow_missing => setup.leave_out("onnxruntime-genai, Optimum, polygraphy and onnxslim", &error),
            Err(error) => return Err(error),
        }
        match modules() {
            Ok(modules) => clients.modules = Some(modules),
            Err(error) if allow_missing => setup.leave_out("transformers.js", &error),
            Err(error) => return Err(error),
        }
        match header::get() {
            Ok(header) => clients.header = Some(header),
            Err(error) if allow_missing => setup.leave_out("ONNX Runtime's C header", &error),
            Err(error) => return Err(error),
        }
        Ok(clients)
    }

    /// Whether onnxruntime-genai and Optimum are there.
    pub(crate) fn have_pythons(&self) -> bool {
        self.pythons.is_some()
    }

    /// Whether transformers.js is there.
    pub(crate) fn have_modules(&self) -> bool {
        self.modules.is_some()
    }

    /// Whether ONNX Runtime's C header is there.
    pub(crate) fn have_header(&self) -> bool {
        self.header.is_some()
    }

    /// The variables by which tests find them.
    pub(crate) fn variables(&self) -> Vec<(OsString, OsString)> {
        let mut variables = Vec::new();
        if let Some(Pythons { genai, optimum, graph_tools }) = &self.pythons {
            variables.push(("PLANSMITH_GENAI_PYTHON".into(), genai.into()));
            variables.push(("PLANSMITH_OPTIMUM_PYTHON".into(), optimum.into()));
            variables.push(("PLANSMITH_GRAPH_TOOLS_PYTHON".into(), graph_tools.into()));
        }
        if let Some(folder) = &self.modules {
            variables.push(("PLANSMITH_NODE_MODULES".into(), folder.into()));
            variables.push(("PLANSMITH_NODE".into(), "node".into()));
        }
        if let Some(folder) = &self.header {
            variables.push(("PLANSMITH_ORT_INCLUDE".into(), folder.into()));
        }
        variables
    }
}

/// optimum-onnx needs an older transformers than the other peers, and torch and much else of theirs; polygraphy and onnxslim need onnx.
fn pythons() -> Result<Pythons, Error> {
    let peers = Peers::get()?;
    let optimum = over(&peers, "optimum-1", "tools/peers/optimum.txt", "import optimum.onnxruntime")?;
    let graph_tools = over(&peers, "graph-tools-1", "tools/clients/graph_tools.txt", "import polygraphy, onnxslim, tritonclient")?;
    Ok(Pythons { genai: peers.python().to_owned(), optimum, graph_tools })
}

/// A Python that finds the packages of `list` first, then those of `peers`.
fn over(peers: &Peers, name: &str, list: &str, check: &str) -> Result<PathBuf, Error> {
    let python = Python::find()?;
    let folder = places::cache()?.join(format!("{name}-{}", python.tag()));
    let failed = |why: String| missing(list, why);
    if !files::is_dir(&folder) {
        println!("getting what {list} lists (20 MB) into {}; the licences' texts will lie in *.dist-info", folder.display());
        let beside = TempFolder::beside(&folder)?;
        python.install(&places::root().join(list), beside.path())?.map_err(failed)?;
        files::replace_folder(beside, &folder)?;
    }
    let wrapper = folder.join("python");
    if !files::is_file(&wrapper) {
        let below = peers.python().parent().unwrap_or(Path::new("/"));
        python.write_wrapper_over(&folder, below, check).map_err(failed)?;
    }
    Ok(wrapper)
}

fn modules() -> Result<PathBuf, Error> {
    let what = "transformers.js (@huggingface/transformers 4.3.2, Apache-2.0, with onnxruntime-node, MIT)";
    npm_ci("clients-node-1", "tools/clients", what, "480 MB")
}

/// The `node_modules` of the cache's folder `name`: npm installs what the package-lock.json of `list` pins, hashes included, and runs no script
/// of any package.
pub(crate) fn npm_ci(name: &str, list: &str, what: &str, size: &str) -> Result<PathBuf, Error> {
    let folder = places::cache()?.join(name);
    let modules = folder.join("node_modules");
    if files::is_dir(&modules) {
        return Ok(modules);
    }
    println!("getting {what} from npm ({size} on disk) into {}; licences' texts will lie in node_modules/*/LICENSE", folder.display());
    let beside = TempFolder::beside(&folder)?;
    for name in ["package.json", "package-lock.json"] {
        files::copy_file(&places::root().join(list).join(name), &beside.path().join(name))?;
    }
    let npm = Program::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]).current_dir(beside.path());
    let output = npm.capture().map_err(|error| missing(what, error.to_string()))?;
    if !output.status.success() {
        return Err(missing(what, format!("npm says: {}", tail(&output.stderr, 3))));
    }
    files::replace_folder(beside, &folder)?;
    Ok(modules)
}

/// What could not be had.
pub(crate) fn missing(what: &str, why: String) -> Error {
    Error::Missing {
        what: what.to_owned(),
        why,
        hint: "check the network, and that there is CPython 3.11 (PLANSMITH_SETUP_PYTHON names one) and node 20 or later with npm; --allow-missing goes \
               on without"
            .into(),
    }
}
