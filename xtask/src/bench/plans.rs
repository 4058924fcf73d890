//! One graph, and the plan that TensorRT-RTX makes of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plansmith_files as files;

use crate::error::Error;
use crate::places;
use crate::process::Program;
use crate::setup::Setup;
use crate::worker::Worker;

/// The forms that are tried: a name, and the flags of `plansmith export`.
pub(crate) const FORMS: [(&str, &[&str]); 3] = [
    ("tensorrt fp16", &["--dialect", "tensorrt", "--dtype", "fp16"]),
    ("primitive fp16", &["--opset", "21", "--dtype", "fp16"]),
    ("primitive fp32", &["--opset", "21", "--dtype", "fp32"]),
];

/// Exports and builds with the command.
#[derive(Debug)]
pub(crate) struct Maker {
    variables: Vec<(OsString, OsString)>,
    architecture: &'static str,
    profile: &'static str,
}

impl Maker {
    pub(crate) fn new(setup: &Setup, worker: &Worker, architecture: &'static str, profile: &'static str) -> Self {
        let mut variables = setup.variables();
        variables.push(worker.variable());
        Self { variables, architecture, profile }
    }

    fn plansmith(&self) -> Program {
        Program::new(places::plansmith("debug")).envs(&self.variables).current_dir(&places::root())
    }

    /// Exports `checkpoint` into the folder `out`; returns the graph.
    pub(crate) fn export(&self, checkpoint: &Path, flags: &[&str], out: &Path) -> Result<PathBuf, Error> {
        self.plansmith().arg("export").arg(checkpoint).arg("-o").arg(out).args(flags).read()?;
        let graph = files::list(out)?.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "onnx"));
        graph.ok_or_else(|| Error::Unexpected { what: out.display().to_string(), why: "export left no graph there".into() })
    }

    /// What `plansmith inspect --json` says of `path`.
    pub(crate) fn inspect(&self, path: &Path) -> Result<String, Error> {
        Ok(self.plansmith().arg("inspect").arg("--json").arg(path).read()?.stdout)
    }

    /// `builds`, or why `checkpoint` exported with `flags` does not. Works in the folder `out`, which it removes.
    pub(crate) fn plan(&self, checkpoint: &Path, flags: &[&str], out: &Path) -> Result<String, Error> {
        let graph = self.export(checkpoint, flags, out)?;
        let profile = format!("plan:{}", self.profile);
        let build = self.plansmith().arg("engine").arg(&graph).arg("-o").arg(out.join("plans"));
        let built = build.args(["--arch", self.architecture, "--profile", &profile]).capture()?;
        let outcome = match built.status.code() {
            Some(0) => {
                self.inspect(&out.join("plans").join(self.architecture).join("plan.plan"))?;
                "builds".to_owned()
            }
            _ => reason(&built.stderr),
        };
        files::remove_dir_all(out)?;
        Ok(outcome)
    }
}

/// The line of an error that names the node, else its first.
fn reason(stderr: &str) -> String {
    let mut lines = stderr.lines().skip_while(|line| !line.starts_with("error: "));
    let first = lines.next().unwrap_or(stderr).trim_start_matches("error: ");
    let nodes = lines.find(|line| line.starts_with("  "));
    nodes.map_or(first, str::trim).to_owned()
}
