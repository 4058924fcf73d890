//! `cargo xtask gpu`: the tests that need a GPU, on a machine that is lent for minutes.

use std::path::Path;

use crate::assets::Asset;
use crate::error::Error;
use crate::places;
use crate::process::Program;
use crate::setup::Setup;
use crate::steps::Steps;
use crate::tidy::{self, Ignored};
use crate::worker::Worker;

/// What the driver of a machine with a GPU makes.
pub(crate) const DEVICE: &str = "/dev/nvidiactl";

/// What tests of the enterprise flavour need.
pub(crate) const ENTERPRISE: &str =
    "the enterprise worker (PLANSMITH_WORKER_ENTERPRISE and PLANSMITH_TENSORRT_DIR name it and its libraries)";

/// Whether the user named both.
pub(crate) fn has_enterprise() -> bool {
    ["PLANSMITH_WORKER_ENTERPRISE", "PLANSMITH_TENSORRT_DIR"]
        .iter()
        .all(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Builds the worker and the tests, and runs those that need a GPU.
pub(crate) fn main(no_run: bool) -> Result<(), Error> {
    if !no_run && !Path::new(DEVICE).exists() {
        return Err(Error::Missing {
            what: "a GPU".into(),
            why: format!("there is no {DEVICE}"),
            hint: "run this on a machine with a GPU and its driver; `cargo xtask gpu --no-run` builds all that is needed elsewhere".into(),
        });
    }
    let setup = Setup::get(&[Asset::Libclang, Asset::TensorRtRtx], false)?;
    let worker = Worker::new(&setup)?;
    let on_gpu = tidy::ignored_tests()?.into_iter().filter(Ignored::needs_gpu);
    let (left_out, tests): (Vec<_>, Vec<_>) = on_gpu.partition(|test| test.needs_enterprise() && !has_enterprise());
    let names: Vec<String> = tests.into_iter().map(|test| test.name).collect();
    let notes: Vec<String> = left_out.iter().map(|test| format!("not run: {}: needs {ENTERPRISE}", test.name)).collect();
    let (name, value) = worker.variable();
    let tests = Program::cargo()
        .args(["test", "--no-fail-fast", "--package", "plansmith", "--package", "plansmith-engine", "--tests"])
        .current_dir(&places::root())
        .envs(&setup.variables())
        .env(name, value);
    let mut steps = Steps::default();
    steps.run("worker: build", |_| Ok(worker.cargo("build").show()?.success()));
    if no_run {
        steps.run("tests: build", |_| Ok(tests.args(["--no-run"]).show()?.success()));
    } else {
        let tests = tests.args(["--", "--ignored", "--exact", "--test-threads", "2"]).args(&names);
        steps.run("tests that need a GPU", |tally| Ok(tests.stream(|line| tally.add(line))?.success()));
    }
    steps.finish(&notes)
}
