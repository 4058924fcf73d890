//! Load, prefill and decode: our graphs and theirs on each runtime; the reference beside transformers.

use std::path::Path;

use super::export::Graph;
use super::peers::Peers;
use super::plansmith;
use super::results::{Execution, Results, Speed};
use crate::assets::Asset;
use crate::error::Error;
use crate::process::{Program, ending, tail};
use crate::setup::Setup;

const PREFILL: usize = 256;
const DECODE: usize = 32;
const REPEAT: usize = 3;

/// Names that the comparison looks up; that of transformers is followed by its kind of attention.
pub(crate) const REFERENCE: &str = "plansmith reference";
pub(crate) const TRANSFORMERS: &str = "transformers";

struct Job {
    name: String,
    program: Program,
}

/// Runs every pair of graph and runtime one after the other, `rounds` times.
pub(crate) fn measure(
    setup: &Setup,
    peers: Option<&Peers>,
    checkpoint: &Path,
    graphs: &[&Graph],
    rounds: usize,
    results: &mut Results,
) -> Result<(), Error> {
    let mut jobs = Vec::new();
    let bench = |path: &Path, runtime: &str| {
        let counts = [PREFILL, DECODE, REPEAT].map(|count| count.to_string());
        let [prefill, decode, repeat] = &counts;
        plansmith(setup).arg("bench").arg(path).args([
            "--json",
            "--runtime",
            runtime,
            "--prefill",
            prefill,
            "--decode",
            decode,
            "--repeat",
            repeat,
        ])
    };
    for graph in graphs {
        for runtime in ["rten", "ort"] {
            if runtime == "rten" || setup.path(Asset::OnnxRuntime).is_some() {
                jobs.push(Job { name: format!("{} on {runtime}", graph.name), program: bench(&graph.path, runtime) });
            }
        }
    }
    jobs.push(Job { name: REFERENCE.into(), program: bench(checkpoint, "reference") });
    if let Some(peers) = peers {
        for attention in ["sdpa", "eager"] {
            let program = peers.transformers(checkpoint, attention, [PREFILL, DECODE, REPEAT]);
            jobs.push(Job { name: format!("{TRANSFORMERS} {attention}"), program });
        }
    }
    for round in 1..=rounds {
        for job in &jobs {
            println!("execute {round}/{rounds}: {:<24} $ {}", job.name, job.program.line());
            let output = job.program.capture()?;
            if !output.status.success() {
                results.refuse(&job.name, &format!("{}: {}", ending(output.status), tail(&output.stderr, 3)));
                continue;
            }
            let speed: Speed =
                serde_json::from_str(&output.stdout).map_err(|source| Error::Json { path: job.program.line().into(), source })?;
            results.executions.push(Execution { name: job.name.clone(), round, speed });
        }
    }
    Ok(())
}
