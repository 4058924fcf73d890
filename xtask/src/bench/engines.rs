//! `cargo xtask bench --engines`: building plans of the demo model, with their weights and without, beside NVIDIA's Python bindings and
//! beside optimum-onnx's graphs.

use std::path::{Path, PathBuf};

use plansmith_files::{self as files, Digest, sha256_file};

use super::measure::{Cost, cost, settle};
use super::plan_peers::PlanPeers;
use crate::assets::Asset;
use crate::error::Error;
use crate::places;
use crate::process::{Program, ending, tail};
use crate::setup::Setup;
use crate::worker::Worker;

const ARCHITECTURE: &str = "sm89";
/// The first preset: one dynamic profile for prefill and decode.
const PROFILE: &str = "chat";

const OURS: &str = "plansmith";
const STRIPPED: &str = "stripped by plansmith";
const PYTHON: &str = "Python API, same graph";
const OPTIMUM: &str = "Python API, optimum-onnx";

/// One way to a plan.
struct Job {
    name: String,
    program: Program,
    plan: PathBuf,
    /// The best of all rounds: least time of either kind, largest peak.
    best: Option<Cost>,
    plan_bytes: u64,
}

/// Measures and prints; a target that is missed is said in capitals.
pub(crate) fn main(rounds: usize) -> Result<(), Error> {
    let setup = Setup::get(&[Asset::DemoModel, Asset::Libclang, Asset::TensorRtRtx], false)?;
    let worker = Worker::new(&setup)?;
    worker.cargo("build").run()?;
    let root = places::root();
    Program::cargo().args(["build", "--release", "--package", "plansmith"]).current_dir(&root).run()?;
    let peers = PlanPeers::get(&setup)?;
    let folder = root.join("target/bench-engines");
    files::remove_dir_all(&folder)?;
    files::create_dir_all(&folder)?;

    let mut variables = setup.variables();
    variables.push(worker.variable());
    let plansmith = || Program::new(places::plansmith("release")).envs(&variables).current_dir(&root);
    let (checkpoint, exported) = (folder.join("checkpoint"), folder.join("fp16"));
    let gguf = setup.path(Asset::DemoModel).unwrap_or(Path::new(""));
    plansmith().arg("import").arg(gguf).arg("-o").arg(&checkpoint).run()?;
    plansmith().arg("export").arg(&checkpoint).arg("-o").arg(&exported).args(["--dialect", "tensorrt", "--dtype", "fp16"]).run()?;
    let (graph, weights) = (exported.join("model_fp16.onnx"), files::metadata(&exported.join("model_fp16.safetensors"))?.len());

    let plans = folder.join("plans");
    let (plan, manifest) = (plans.join(ARCHITECTURE).join("chat.plan"), plans.join(ARCHITECTURE).join("chat.json"));
    let build = |plans: &Path| {
        plansmith().arg("engine").arg(&graph).arg("-o").arg(plans).args(["--arch", ARCHITECTURE, "--profile", PROFILE, "--no-cache"])
    };
    let apart = folder.join("stripped");
    let stripped = build(&apart).args(["--weights", "stripped"]);
    let mut jobs = vec![Job::new(OURS, build(&plans), plan), Job::new(STRIPPED, stripped, apart.join(ARCHITECTURE).join("chat.plan"))];
    let mut by_python = |name: &str, graph: &Path| {
        let plan = folder.join("python.plan");
        jobs.push(Job::new(name, peers.build(graph, &plan, &manifest), plan));
    };
    by_python(PYTHON, &graph);
    for graph in optimum(&peers, &checkpoint, &folder)? {
        by_python(&format!("{OPTIMUM} {}", graph.dtype), &graph.path);
    }
    for round in 1..=rounds {
        for job in &mut jobs {
            settle()?;
            println!("build {round}/{rounds}: {:<32} $ {}", job.name, job.program.line());
            job.measure(&folder)?;
        }
    }
    print(&jobs, weights);
    files::remove_dir_all(&folder)?;
    Ok(())
}

/// A graph that optimum-onnx made.
struct Theirs {
    dtype: String,
    path: PathBuf,
}

/// Their fp32 and fp16 graphs; on a CPU the two may be the same file, of which one is kept.
fn optimum(peers: &PlanPeers, checkpoint: &Path, folder: &Path) -> Result<Vec<Theirs>, Error> {
    let mut graphs: Vec<(Theirs, Digest)> = Vec::new();
    for dtype in ["fp32", "fp16"] {
        let output = folder.join(format!("optimum-{dtype}"));
        let program = peers.optimum(checkpoint, dtype, &output);
        println!("$ {}", program.line());
        let outcome = program.capture()?;
        if !outcome.status.success() {
            println!("  {}: {}", ending(outcome.status), tail(&outcome.stderr, 1));
            continue;
        }
        let path = output.join("model.onnx");
        let digest = sha256_file(&path)?;
        match graphs.iter_mut().find(|(_, known)| *known == digest) {
            Some((same, _)) => {
                println!("  the same bytes as {}", same.dtype);
                same.dtype = format!("{} (asked for {dtype}, the same bytes)", same.dtype);
                files::remove_dir_all(&output)?;
            }
            None => graphs.push((Theirs { dtype: dtype.to_owned(), path }, digest)),
        }
    }
    Ok(graphs.into_iter().map(|(graph, _)| graph).collect())
}

impl Job {
    fn new(name: &str, program: Program, plan: PathBuf) -> Self {
        Self { name: name.to_owned(), program, plan, best: None, plan_bytes: 0 }
    }

    fn measure(&mut self, scratch: &Path) -> Result<(), Error> {
        match cost(&self.program, scratch)? {
            Ok(cost) => {
                self.best = Some(self.best.map_or(cost, |best| best.better(cost)));
                self.plan_bytes = files::metadata(&self.plan)?.len();
                // Ours stays: its manifest says what the others are to build, and is written anew each time.
                files::remove_file(&self.plan)?;
            }
            Err(why) => println!("  {why}"),
        }
        Ok(())
    }
}

fn print(jobs: &[Job], weights: u64) {
    println!("\n| build | CPU s (least) | wall s (least) | peak MB (largest) | plan MB |\n|---|---|---|---|---|");
    for job in jobs {
        match job.best {
            None => println!("| {} | failed | | | |", job.name),
            Some(Cost { seconds, cpu_seconds, peak_bytes }) => {
                let (peak, plan) = (peak_bytes as f64 / 1e6, job.plan_bytes as f64 / 1e6);
                println!("| {} | {cpu_seconds:.1} | {seconds:.1} | {peak:.0} | {plan:.1} |", job.name);
            }
        }
    }
    println!();
    let best = |name: &str| -> Vec<Cost> { jobs.iter().filter(|job| job.name.starts_with(name)).filter_map(|job| job.best).collect() };
    let reached = |reached: bool| if reached { "reached" } else { "MISSED" };
    if let (Some(ours), Some(theirs)) = (best(OURS).first(), best(PYTHON).first()) {
        let ratio = ours.peak_bytes as f64 / theirs.peak_bytes as f64;
        println!("peak memory is {ratio:.3} of the Python API's on the same graph (target: at most 1, {})", reached(ratio <= 1.0));
    }
    // One program builds both, so that nothing but the graphs differs.
    let fastest = best(OPTIMUM).iter().map(|cost| cost.cpu_seconds).min_by(f64::total_cmp);
    if let (Some(ours), Some(theirs)) = (best(PYTHON).first(), fastest) {
        let ratio = theirs / ours.cpu_seconds;
        println!("our graph builds in 1/{ratio:.2} of the time of optimum-onnx's (CPU; target: at most 1/2, {})", reached(ratio >= 2.0));
    }
    let size = |name: &str| {
        let job = jobs.iter().find(|job| job.name == name && job.best.is_some())?;
        Some(job.plan_bytes as f64 / weights as f64)
    };
    if let Some(ratio) = size(OURS) {
        println!("the plan is {ratio:.4} of the weights (target: at most 1.06, {})", reached(ratio <= 1.06));
    }
    if let Some(ratio) = size(STRIPPED) {
        println!("the stripped plan is {ratio:.4} of the weights (target: under 0.05, {})", reached(ratio < 0.05));
    }
}
