//! Who else builds plans: NVIDIA's Python bindings, of our graph and of optimum-onnx's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plansmith_files::{self as files, TempFolder};

use super::peers::Peers;
use crate::assets::Asset;
use crate::error::Error;
use crate::places;
use crate::process::Program;
use crate::python::Python;
use crate::setup::Setup;

/// Python with TensorRT-RTX's bindings, and with optimum-onnx.
#[derive(Debug)]
pub(crate) struct PlanPeers {
    python: Python,
    bindings: PathBuf,
    optimum: OsString,
    libraries: PathBuf,
}

impl PlanPeers {
    /// Gets what is not in the cache. Torch and transformers are those of the other [`Peers`].
    pub(crate) fn get(setup: &Setup) -> Result<Self, Error> {
        Peers::get()?;
        let python = Python::find()?;
        let folder = |name: &str| Ok::<_, Error>(places::cache()?.join(format!("{name}-1-{}", python.tag())));
        let (bindings, optimum) = (folder("tensorrt-python")?, folder("optimum")?);
        install(&python, "tensorrt.txt", "NVIDIA's, under the NVIDIA Software License Agreement for NVIDIA TensorRT", &bindings)?;
        install(&python, "optimum.txt", "optimum-onnx and what it needs, each under its own licence", &optimum)?;
        let libraries = setup.folder(Asset::TensorRtRtx).map(Path::to_path_buf).unwrap_or_default();
        let path = std::env::join_paths([optimum, folder("peers")?]);
        let optimum = path.map_err(|error| Error::Unexpected { what: "the cache's path".into(), why: error.to_string() })?;
        Ok(Self { python, bindings, optimum, libraries })
    }

    /// Builds a plan of `graph` with the architectures and shapes of our `manifest`.
    pub(crate) fn build(&self, graph: &Path, plan: &Path, manifest: &Path) -> Program {
        let program = self.python.program().env("PYTHONPATH", &self.bindings).env("LD_LIBRARY_PATH", &self.libraries);
        program.arg(places::root().join("tools/peers/build_plan.py")).args([graph, plan, manifest])
    }

    /// Exports with optimum-onnx as its documentation says, less the post-processing that fails on newer onnx.
    pub(crate) fn optimum(&self, checkpoint: &Path, dtype: &str, output: &Path) -> Program {
        let program = self.python.program().env("PYTHONPATH", &self.optimum).env("HF_HUB_OFFLINE", "1");
        let task = ["--task", "text-generation-with-past", "--dtype", dtype, "--no-post-process"];
        program.args(["-m", "optimum.exporters.onnx", "--model"]).arg(checkpoint).args(task).arg(output)
    }
}

/// Fills `folder` with what `list` pins, if it is not there.
fn install(python: &Python, list: &str, licence: &str, folder: &Path) -> Result<(), Error> {
    if files::is_dir(folder) {
        return Ok(());
    }
    println!("getting what tools/peers/{list} lists into {}", folder.display());
    println!("  {licence}; the texts will lie in {}/*.dist-info", folder.display());
    let beside = TempFolder::beside(folder)?;
    let missing = |why: String| Error::Missing {
        what: format!("what tools/peers/{list} lists"),
        why,
        hint: "its wheels are pinned for CPython 3.11; PLANSMITH_SETUP_PYTHON names one".into(),
    };
    python.install(&places::root().join("tools/peers").join(list), beside.path())?.map_err(missing)?;
    Ok(files::replace_folder(beside, folder)?)
}
