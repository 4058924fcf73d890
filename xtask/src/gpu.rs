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
    let names: Vec<String> = tidy::ignored_tests()?.into_iter().filter(Ignored::needs_gpu).map(|test| test.name).collect();
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
    steps.finish(&[])
}
