//! The Python of this machine: it downloads with pip and unpacks wheels.

use std::os::unix::fs::PermissionsExt;
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

    /// A command line that begins with it.
    pub(crate) fn program(&self) -> Program {
        Program::new(&self.executable)
    }

    /// Has pip put the wheels that the file `list` pins, hashes included, into `folder`. The inner error says why it cannot.
    pub(crate) fn install(&self, list: &Path, folder: &Path) -> Result<Result<(), String>, Error> {
        let pip =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps", "--only-binary", ":all:"];
        let output = self.program().args(pip).arg("--target").arg(folder).arg("--requirement").arg(list).capture()?;
        Ok(if output.status.success() { Ok(()) } else { Err(format!("pip says: {}", tail(&output.stderr, 3))) })
    }

    /// Writes an executable `python` into `folder` that runs the interpreter with the folder's packages on its path, and tries
    /// `check` with it. The error says why they cannot be imported.
    pub(crate) fn write_wrapper(&self, folder: &Path, check: &str) -> Result<(), String> {
        self.wrap(folder, "", check)
    }

    /// As [`Python::write_wrapper`]; what `folder` does not have is found in the folder `below`.
    pub(crate) fn write_wrapper_over(&self, folder: &Path, below: &Path, check: &str) -> Result<(), String> {
        self.wrap(folder, &format!(":'{}'", quoted(below)), check)
    }

    fn wrap(&self, folder: &Path, below: &str, check: &str) -> Result<(), String> {
        let path = folder.join("python");
        let interpreter = quoted(&self.executable);
        let script = format!(
            "#!/bin/sh\n\
             here=$(CDPATH= cd -- \"$(dirname -- \"$0\")\" && pwd) || exit 2\n\
             PYTHONPATH=\"$here\"{below}\"${{PYTHONPATH:+:$PYTHONPATH}}\" PYTHONDONTWRITEBYTECODE=1 exec '{interpreter}' \"$@\"\n"
        );
        plansmith_files::write_atomic(&path, script.as_bytes()).map_err(|error| error.to_string())?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
        let output = Program::new(&path).args(["-c", check]).capture().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("{} says of `{check}`: {}", self.executable.display(), tail(&output.stderr, 1)))
    }
}

/// As the inside of a shell's single quotes.
fn quoted(path: &Path) -> String {
    path.display().to_string().replace('\'', r"'\''")
}
