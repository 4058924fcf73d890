//! One graph, and the plan that TensorRT-RTX makes of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plansmith_files as files;

use crate::error::Error;
use crate::places;
use crate::process::Program;
use crate::setup::Setup;
use crate::worker::Worker;

/// One way of exporting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) name: &'static str,
    /// Of `plansmith export`.
    pub(crate) flags: &'static [&'static str],
}

/// The outcome of a form that builds.
pub(crate) const BUILDS: &str = "builds";

/// The composite form, which TensorRT takes for some sizes of heads only.
pub(crate) const PORTABLE: Form = Form { name: "portable fp16", flags: &["--opset", "23", "--dtype", "fp16"] };

/// The forms that are tried.
pub(crate) const FORMS: [Form; 4] = [
    Form { name: "tensorrt fp16", flags: &["--dialect", "tensorrt", "--dtype", "fp16"] },
    PORTABLE,
    Form { name: "primitive fp16", flags: &["--opset", "21", "--dtype", "fp16"] },
    Form { name: "primitive fp32", flags: &["--opset", "21", "--dtype", "fp32"] },
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
    pub(crate) fn export(&self, checkpoint: &Path, form: Form, out: &Path) -> Result<PathBuf, Error> {
        self.plansmith().arg("export").arg(checkpoint).arg("-o").arg(out).args(form.flags).read()?;
        let graph = files::list(out)?.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "onnx"));
        graph.ok_or_else(|| Error::Unexpected { what: out.display().to_string(), why: "export left no graph there".into() })
    }

    /// What `plansmith inspect --json` says of `path`.
    pub(crate) fn inspect(&self, path: &Path) -> Result<String, Error> {
        Ok(self.plansmith().arg("inspect").arg("--json").arg(path).read()?.stdout)
    }

    /// `builds`, or why `checkpoint` exported in `form` does not. Works in the folder `out`, which it removes.
    pub(crate) fn plan(&self, checkpoint: &Path, form: Form, out: &Path) -> Result<String, Error> {
        let graph = self.export(checkpoint, form, out)?;
        let profile = format!("plan:{}", self.profile);
        let build = self.plansmith().arg("engine").arg(&graph).arg("-o").arg(out.join("plans"));
        let built = build.args(["--arch", self.architecture, "--profile", &profile]).capture()?;
        let outcome = match built.status.code() {
            Some(0) => {
                self.inspect(&out.join("plans").join(self.architecture).join("plan.plan"))?;
                BUILDS.to_owned()
            }
            _ => reason(&built.stderr),
        };
        files::remove_dir_all(out)?;
        Ok(outcome)
    }
}

/// Of an error the first sentence of the line that names the node, else of its first line.
fn reason(stderr: &str) -> String {
    let mut lines = stderr.lines().skip_while(|line| !line.starts_with("error: "));
    let first = lines.next().unwrap_or(stderr).trim_start_matches("error: ");
    let nodes = lines.find(|line| line.starts_with("  "));
    let line = nodes.map_or(first, str::trim);
    line.split_once(". ").map_or(line, |(sentence, _)| sentence).to_owned()
}
