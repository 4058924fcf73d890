//! The exporters that plansmith is compared with, in an environment of their own in the cache.

use std::path::{Path, PathBuf};

use plansmith_files::{self as files, TempFolder};

use crate::error::Error;
use crate::places;
use crate::process::Program;
use crate::python::Python;

/// A Python with mobius-onnx, onnxruntime-genai, torch and transformers.
#[derive(Debug)]
pub(crate) struct Peers {
    python: PathBuf,
}

impl Peers {
    /// `$PLANSMITH_PEERS_PYTHON`, else the environment in the cache, which is made if it is not there.
    pub(crate) fn get() -> Result<Self, Error> {
        if let Some(python) = std::env::var_os("PLANSMITH_PEERS_PYTHON") {
            return Ok(Self { python: python.into() });
        }
        let python = Python::find()?;
        let folder = places::cache()?.join(format!("peers-1-{}", python.tag()));
        if !files::is_dir(&folder) {
            install(&python, &folder)?;
        }
        Ok(Self { python: folder.join("python") })
    }

    /// The interpreter.
    pub(crate) fn python(&self) -> &Path {
        &self.python
    }

    /// Exports with mobius-onnx; `dtype` is `f32` or `f16`.
    pub(crate) fn mobius(&self, checkpoint: &Path, dtype: &str, output: &Path) -> Program {
        self.offline().args(["-m", "mobius", "build", "--config"]).arg(checkpoint).args(["--dtype", dtype, "--ep", "cpu"]).arg(output)
    }

    /// Exports with the model builder of onnxruntime-genai; `precision` is `fp32` or `fp16`.
    pub(crate) fn genai(&self, checkpoint: &Path, precision: &str, output: &Path, cache: &Path) -> Program {
        self.offline()
            .args(["-m", "onnxruntime_genai.models.builder", "-e", "cpu", "-p", precision, "-m"])
            .arg(checkpoint)
            .arg("-i")
            .arg(checkpoint)
            .arg("-o")
            .arg(output)
            .arg("-c")
            .arg(cache)
    }

    /// Times transformers on a checkpoint, in the words of `plansmith bench --json`.
    ///
    /// `attention` is `sdpa` or `eager`; `counts` are tokens of the prefill, tokens decoded, and how often.
    pub(crate) fn transformers(&self, checkpoint: &Path, attention: &str, counts: [usize; 3]) -> Program {
        let script = places::root().join("tools/peers/time_transformers.py");
        self.offline().arg(script).arg(checkpoint).arg(attention).args(counts.map(|count| count.to_string()))
    }

    /// Nothing is fetched while time is taken.
    fn offline(&self) -> Program {
        Program::new(&self.python).env("HF_HUB_OFFLINE", "1")
    }
}

fn install(python: &Python, folder: &Path) -> Result<(), Error> {
    let list = places::root().join("tools/peers/requirements.txt");
    println!("getting mobius-onnx, onnxruntime-genai, torch and transformers (3 GB to download, 5 GB on disk) into {}", folder.display());
    println!("  each under its own licence; the texts will lie in {}/*.dist-info", folder.display());
    let beside = TempFolder::beside(folder)?;
    let missing = |why: String| Error::Missing {
        what: "the environment of the peers".into(),
        why,
        hint: "its wheels are pinned for CPython 3.11 (PLANSMITH_SETUP_PYTHON names one); PLANSMITH_PEERS_PYTHON names a Python that \
               has mobius-onnx, onnxruntime-genai, torch and transformers"
            .into(),
    };
    python.install(&list, beside.path())?.map_err(missing)?;
    python.write_wrapper(beside.path(), "import mobius, onnxruntime_genai").map_err(missing)?;
    Ok(files::replace_folder(beside, folder)?)
}
