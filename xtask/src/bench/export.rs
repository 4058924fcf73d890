//! Export time and peak memory: plansmith, its peers, and `cp` of the weights as the floor of any copy.

use std::path::{Path, PathBuf};

use plansmith_files as files;

use super::measure::{cost, settle};
use super::peers::Peers;
use super::plansmith;
use super::results::{Export, Results};
use crate::error::Error;
use crate::process::Program;
use crate::setup::Setup;

/// A graph that an export left, to be run.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
}

struct Job {
    name: &'static str,
    program: Program,
    /// What it writes: removed before each run.
    output: PathBuf,
    graph: Option<Graph>,
}

/// Every export of the comparison.
pub(crate) struct Exports {
    jobs: Vec<Job>,
    scratch: PathBuf,
}

impl Exports {
    /// `checkpoint` is fp32; everything but the export in place is written below `folder`.
    pub(crate) fn new(setup: &Setup, peers: Option<&Peers>, checkpoint: &Path, folder: &Path) -> Self {
        let out = |name: &str| folder.join(name);
        let export = |output: &Path| plansmith(setup).arg("export").arg(checkpoint).arg("-o").arg(output);
        let graph = |name, output: &Path| Some(Graph { name, path: output.join("model.onnx") });
        let mut jobs = vec![
            Job {
                name: results_names::CP,
                program: Program::new("cp").arg(checkpoint.join("model.safetensors")).arg(out("cp.safetensors")),
                output: out("cp.safetensors"),
                graph: None,
            },
            Job {
                name: results_names::IN_PLACE,
                program: export(checkpoint),
                output: checkpoint.join("model.onnx"),
                graph: graph("plansmith fp32", checkpoint),
            },
            Job { name: "plansmith copy", program: export(&out("copy")), output: out("copy"), graph: None },
            Job {
                name: results_names::FP16,
                program: export(&out("fp16")).args(["--dtype", "fp16"]),
                output: out("fp16"),
                graph: Some(Graph { name: "plansmith fp16", path: out("fp16").join("model_fp16.onnx") }),
            },
        ];
        if let Some(peers) = peers {
            for (name, dtype) in [("mobius fp32", "f32"), ("mobius fp16", "f16")] {
                let output = out(&name.replace(' ', "-"));
                let program = peers.mobius(checkpoint, dtype, &output);
                jobs.push(Job { name, program, graph: graph(name, &output), output });
            }
            for (name, precision) in [("genai fp32", "fp32"), ("genai fp16", "fp16")] {
                let output = out(&name.replace(' ', "-"));
                let program = peers.genai(checkpoint, precision, &output, &out("genai-cache"));
                jobs.push(Job { name, program, graph: graph(name, &output), output });
            }
        }
        Self { jobs, scratch: folder.to_owned() }
    }

    /// Runs all of them one after the other, `rounds` times, so that each meets the machine as its neighbours do.
    pub(crate) fn measure(&self, rounds: usize, results: &mut Results) -> Result<(), Error> {
        for round in 1..=rounds {
            for job in &self.jobs {
                remove(&job.output)?;
                settle()?;
                println!("export {round}/{rounds}: {:<20} $ {}", job.name, job.program.line());
                let outcome = cost(&job.program, &self.scratch)?;
                let written = if outcome.is_ok() { size(&job.output)? } else { 0 };
                match outcome {
                    Ok(cost) => results.exports.push(Export { name: job.name, round, cost, written }),
                    Err(why) => results.refuse(job.name, &why),
                }
            }
        }
        Ok(())
    }

    /// The graphs that were written.
    pub(crate) fn graphs(&self) -> Vec<&Graph> {
        self.jobs.iter().filter_map(|job| job.graph.as_ref()).filter(|graph| files::is_file(&graph.path)).collect()
    }
}

/// Names that the summary looks up.
pub(crate) mod results_names {
    pub(crate) const CP: &str = "cp";
    pub(crate) const IN_PLACE: &str = "plansmith in place";
    pub(crate) const FP16: &str = "plansmith fp16";
}

fn remove(path: &Path) -> Result<(), Error> {
    if files::is_dir(path) {
        files::remove_dir_all(path)?
    } else {
        files::remove_file(path)?
    }
    Ok(())
}

/// Bytes of a file, or of the files directly in a folder.
fn size(path: &Path) -> Result<u64, Error> {
    if files::is_file(path) {
        return Ok(files::metadata(path)?.len());
    }
    let mut total = 0;
    for entry in files::list(path)? {
        total += files::metadata(&entry)?.len();
    }
    Ok(total)
}
