//! Whether a fault is found, by what, and where it is said to be.

use std::path::{Path, PathBuf};

use plansmith_checkpoint::Audit;
use plansmith_engine::Lookup;
use plansmith_families::Options;
use plansmith_graph::Metadata;
use plansmith_lowering::{Source, Target, lower};
use plansmith_onnx::ModelProto;
use plansmith_pipeline::{Assessment, GraphCandidate, assess, audit_source, builtin};
use plansmith_runtime::{OpenOptions, RuntimeKind};
use plansmith_verify::{FirstDivergence, Limits, Outcome, Verdict};

use crate::fault::{Fault, Seeding, Way};
use crate::surgery::Surgery;

/// A checkpoint to seed faults into, opened and hashed once.
pub struct Bench {
    folder: PathBuf,
    audit: Audit,
    runtime: RuntimeKind,
}

/// What became of a fault.
#[derive(Debug, Clone)]
pub struct Scored {
    /// What found it: names of the checks that failed, or the refusal. `None`: it escaped.
    pub caught: Option<String>,
    /// Where bisection says it is in a graph of ours, whose nodes say what they are.
    pub by_name: Option<FirstDivergence>,
    /// Where it says it is when node names are taken away.
    pub by_structure: Option<FirstDivergence>,
    /// Why bisection found nothing, where that is so.
    pub lost: Option<String>,
}

impl Bench {
    /// The checkpoint `testdata/mutants/NAME`, executed on `runtime`.
    ///
    /// # Errors
    /// It cannot be opened or is broken.
    pub fn open(name: &str, runtime: RuntimeKind) -> Result<Self, String> {
        Self::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/mutants").join(name), runtime)
    }

    /// The checkpoint in `folder`.
    pub(crate) fn of(folder: &Path, runtime: RuntimeKind) -> Result<Self, String> {
        let source = open(folder)?;
        let audit = audit_source(&source, &|_| ()).map_err(|error| error.to_string())?;
        Ok(Self { folder: folder.to_owned(), audit, runtime })
    }

    /// Seeds `fault` and verifies.
    ///
    /// # Errors
    /// The fault cannot be seeded, or changes nothing: a mistake in its description.
    pub fn score(&self, fault: &Fault, way: Way) -> Result<Scored, String> {
        let (right, mut wrong) = (open(&self.folder)?, open(&self.folder)?);
        if let Seeding::Spec(edit) = fault.seeding {
            edit(&mut wrong.loaded.spec);
            if wrong.loaded.spec == right.loaded.spec {
                return Err("the spec is as before".to_owned());
            }
        }
        // Without the metadata that says it is ours: then only what it computes counts, not the bytes of its weights.
        let target = Target::default();
        let mut model = lower(&wrong, &target)
            .and_then(|lowered| Ok(lowered.graph.finish(&Metadata::default())?))
            .map_err(|error| error.to_string())?;
        if let Seeding::Graph(operation) = fault.seeding {
            let before = model.clone();
            operation(&mut Surgery::on(&mut model, &self.folder)?)?;
            if model == before {
                return Err("the graph is as before".to_owned());
            }
        }
        match way {
            Way::Both => {
                let golden = self.folder.join("golden.safetensors");
                let caught = self.found(self.verify(&wrong, model, Some(&golden), false));
                Ok(Scored { caught, by_name: None, by_structure: None, lost: None })
            }
            Way::Graph => {
                let mut anonymous = model.clone();
                forget_names(&mut anonymous);
                let named = self.verify(&right, model, None, true);
                let by_name = divergence(&named);
                let anonymous = self.verify(&right, anonymous, None, true);
                let by_structure = divergence(&anonymous);
                let nowhere = [(&by_name, &named), (&by_structure, &anonymous)].into_iter().find(|(found, _)| found.is_none());
                let lost = nowhere.and_then(|(_, verdict)| verdict.as_ref().ok()?.candidates.first()?.reason.clone());
                Ok(Scored { caught: self.found(named), by_name, by_structure, lost })
            }
        }
    }

    /// The verdict on a graph in memory, or why there is none.
    fn verify(&self, source: &Source, model: ModelProto, golden: Option<&Path>, bisect: bool) -> Result<Verdict, String> {
        self.assess(source, &GraphCandidate::memory(model, &self.folder, "graph"), golden, bisect)
    }

    pub(crate) fn assess(&self, source: &Source, graph: &GraphCandidate, golden: Option<&Path>, bisect: bool) -> Result<Verdict, String> {
        let prompts = builtin(&source.loaded.spec).map_err(|error| error.to_string())?;
        let assessment = Assessment {
            source,
            source_name: "mutant",
            revision: None,
            graphs: std::slice::from_ref(graph),
            plans: &[],
            runtimes: &[self.runtime],
            golden,
            prompts: &prompts,
            prompts_origin: "builtin",
            keep: None,
            keep_noise: None,
            limits: Limits::default(),
            open: &OpenOptions { threads: Some(1), ..OpenOptions::default() },
            lookup: &Lookup::default(),
            bisect,
        };
        assess(&assessment, &self.audit, &mut |_| ()).map_err(|error| error.to_string())
    }

    /// What found the fault: only a verdict of `disagree`, or a refusal to run it.
    fn found(&self, verdict: Result<Verdict, String>) -> Option<String> {
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(refusal) => return Some(format!("refused: {refusal}")),
        };
        let oracles = verdict.oracles.iter().filter(|oracles| oracles.verdict == Outcome::Disagree).map(|_| "oracles".to_owned());
        let checks = verdict.candidates.iter().flat_map(|candidate| &candidate.checks).filter(|check| !check.passed);
        let mut names: Vec<String> = oracles.chain(checks.map(|check| check.name.to_string())).collect();
        names.dedup();
        match verdict.verdict {
            Outcome::Agree | Outcome::NotExecuted => None,
            Outcome::Disagree if names.is_empty() => {
                Some(verdict.candidates.iter().find_map(|each| each.reason.clone()).unwrap_or_default())
            }
            Outcome::Disagree => Some(names.join(", ")),
            Outcome::Error => {
                let reason = verdict.candidates.iter().find_map(|each| each.reason.clone()).or(verdict.reason);
                Some(format!("refused: {}", reason.unwrap_or_default()))
            }
        }
    }
}

/// Opens a checkpoint.
pub(crate) fn open(folder: &Path) -> Result<Source, String> {
    Source::open(folder, &Options::default()).map_err(|error| format!("{}: {error}", folder.display()))
}

fn divergence(verdict: &Result<Verdict, String>) -> Option<FirstDivergence> {
    verdict.as_ref().ok()?.candidates.first()?.first_divergence.clone()
}

/// What most exporters leave: no node says which part of the model it is.
fn forget_names(model: &mut ModelProto) {
    for node in model.graph.iter_mut().flat_map(|graph| &mut graph.node) {
        node.name = None;
    }
}
