//! The Python of this machine: it downloads with pip and unpacks wheels.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::process::{Program, tail};

/// An interpreter with pip.
#[derive(Debug)]
pub(crate) struct Python {
    executable: PathBuf,
    tag: String,
}

impl Python {
    /// `$PLANSMITH_SETUP_PYTHON`, else `python3` on PATH.
    pub(crate) fn find() -> Result<Self, Error> {
        let name = std::env::var_os("PLANSMITH_SETUP_PYTHON").unwrap_or_else(|| "python3".into());
        let ask = "import sys, pip; print(sys.executable); print('cp%d%d' % sys.version_info[:2])";
        let missing = |why: String| Error::Missing {
            what: format!("`{}` with pip", name.to_string_lossy()),
            why,
            hint: "install python3 and its pip (Debian: apt install python3 python3-pip), or name an interpreter in PLANSMITH_SETUP_PYTHON"
                .into(),
        };
        let output = Program::new(&name).args(["-c", ask]).capture().map_err(|error| missing(error.to_string()))?;
        let mut lines = output.stdout.lines();
        match (output.status.success(), lines.next(), lines.next()) {
            (true, Some(executable), Some(tag)) => Ok(Self { executable: executable.into(), tag: tag.into() }),
            _ => Err(missing(tail(&output.stderr, 1))),
        }
    }

    /// `cp311`.
    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    /// The interpreter itself.
    pub(crate) fn executable(&self) -> &Path {
        &self.executable
    }

    /// A command line that begins with it.
    pub(crate) fn program(&self) -> Program {
        Program::new(&self.executable)
    }
}
