//! One candidate after another against the oracles.

use std::path::Path;

use half::f16;
use plansmith_engine::{Flavor, Lookup, NotExecuted, PlanCheck, PlanManifest, WorkerPaths};
use plansmith_reference::LayerRange;
use plansmith_runtime::{OpenOptions, OpenedPlans, RuntimeKind, load, open_plans};
use plansmith_tensor::DType;
use plansmith_verify::{Candidate, CandidateFacts, CandidateVerdict, FirstDivergence, Limits, Oracles, Outcome, Precision, Standard};

use crate::Error;
use crate::assess::Progress;
use crate::candidates::{GraphCandidate, PlanCandidate};
use crate::foreign::{cannot, explain_padding, preferred};
use crate::noise::{Floors, Kind};
use crate::stages::lookup_for;

/// A plan does not say whether its attention was written with scores that are stored.
const PLANS_STORE_SCORES: bool = true;

/// Who speaks for the source, and how candidates are executed.
pub(crate) struct Judge<'a> {
    pub(crate) oracles: Oracles<'a>,
    /// What rounding alone does.
    pub(crate) floors: Floors<'a>,
    /// Whether floors are also measured for what this host does not execute: graphs in their own dtype, plans.
    pub(crate) foresee: bool,
    /// What the user set.
    pub(crate) limits: Limits,
    /// The first block that leaves fp16's range, and the sentence about it.
    pub(crate) overflow: Option<(FirstDivergence, String)>,
    pub(crate) open: &'a OpenOptions,
    pub(crate) lookup: &'a Lookup,
}

impl Judge<'_> {
    /// A graph on each runtime that was asked for, or on the first that can run it.
    pub(crate) fn graph(
        &mut self,
        graph: &GraphCandidate,
        runtimes: &[RuntimeKind],
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Vec<CandidateVerdict>, Error> {
        let mut verdicts = Vec::new();
        let scores = graph.stores_scores();
        if self.foresee {
            self.prepare(graph.storage(), graph.compute(), scores)?;
        }
        let mut unable = Vec::new();
        let order = if runtimes.is_empty() { preferred(&graph.model) } else { runtimes.to_vec() };
        for runtime in order {
            let mut loaded = match load(runtime, graph.source(), self.open) {
                Ok(loaded) => loaded,
                Err(error) => {
                    unable.push((runtime, cannot(error, runtimes.is_empty())?));
                    continue;
                }
            };
            let facts = graph_facts(graph, runtime, loaded.facts.compute);
            let what = format!("{} on {runtime}", graph.name);
            let verdict = self.judge(Candidate { session: &mut *loaded.session, facts }, scores, &what, progress)?;
            verdicts.push(match &self.overflow {
                Some((divergence, problem)) if graph.compute() == DType::F16 && verdict.verdict == Outcome::Agree => CandidateVerdict {
                    verdict: Outcome::Disagree,
                    reason: Some(problem.clone()),
                    first_divergence: Some(divergence.clone()),
                    ..verdict
                },
                _ => explain_padding(&graph.model, verdict),
            });
            if runtimes.is_empty() {
                return Ok(verdicts);
            }
        }
        let executed = !verdicts.is_empty();
        verdicts.extend(unable.into_iter().map(|(runtime, why)| {
            let facts = graph_facts(graph, runtime, graph.compute());
            // Nothing was proved where no runtime ran it.
            if executed { CandidateVerdict::not_executed(facts, why) } else { CandidateVerdict::failed(facts, why) }
        }));
        Ok(verdicts)
    }

    fn judge(
        &mut self,
        candidate: Candidate<'_>,
        scores: bool,
        what: &str,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<CandidateVerdict, Error> {
        let CandidateFacts { storage, compute, .. } = candidate.facts;
        let precision = match Precision::between(self.floors.stored, storage, compute) {
            Err(problem) if !self.limits.is_given() => return Ok(CandidateVerdict::failed(candidate.facts, problem)),
            precision => precision.unwrap_or(Precision::Unknown),
        };
        let kind = self.prepare(storage, compute, scores)?;
        if kind.is_some_and(|kind| !self.floors.can_know(kind)) && !self.limits.is_given() {
            let problem = format!(
                "the bundle has no noise floor of weights in {storage} and arithmetic in {compute}, since no artifact of its own is of that kind: \
                 verify it against the source, or give --max-abs, --max-kl or --min-top1"
            );
            return Ok(CandidateVerdict::failed(candidate.facts, problem));
        }
        let floors = kind.and_then(|kind| self.floors.get(kind));
        let (golden, reference) = (floors.and_then(|pair| pair.golden.as_ref()), floors.and_then(|pair| pair.reference.as_ref()));
        let standard = Standard { precision, limits: self.limits, golden, reference };
        Ok(self.oracles.judge(candidate, &standard, &mut |inner| progress(Progress { what, check: inner.check, set: inner.set })))
    }

    fn prepare(&mut self, storage: DType, compute: DType, scores: bool) -> Result<Option<Kind>, Error> {
        let kind = Kind::of(self.floors.stored, storage, compute, scores);
        kind.map(|kind| self.floors.prepare(kind)).transpose()?;
        Ok(kind)
    }

    /// Plans, those of one folder together: a prefill plan and a decode plan of one architecture serve one cache.
    pub(crate) fn plans(
        &mut self,
        plans: &[PlanCandidate],
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Vec<CandidateVerdict>, Error> {
        let mut folders: Vec<&Path> = Vec::new();
        for plan in plans {
            let folder = folder_of(plan);
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        let flavors: Vec<Flavor> = plans.iter().map(|plan| plan.check.manifest.flavor).collect();
        let both = Flavor::ALL.iter().all(|flavor| flavors.contains(flavor));
        let mut verdicts = Vec::new();
        for folder in folders {
            let together: Vec<&PlanCandidate> = plans.iter().filter(|plan| folder_of(plan) == folder).collect();
            verdicts.extend(self.plans_of_one_folder(&together, both, progress)?);
        }
        Ok(verdicts)
    }

    fn plans_of_one_folder(
        &mut self,
        plans: &[&PlanCandidate],
        both: bool,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Vec<CandidateVerdict>, Error> {
        let checks: Vec<PlanCheck> = plans.iter().map(|plan| plan.check.clone()).collect();
        let facts: Vec<CandidateFacts> = plans.iter().zip(&checks).map(|(plan, check)| plan_facts(plan, &check.manifest)).collect();
        if self.foresee {
            for CandidateFacts { storage, compute, .. } in &facts {
                self.prepare(*storage, *compute, PLANS_STORE_SCORES)?;
            }
        }
        let not_executed = |(facts, why, checked): (&CandidateFacts, &str, Vec<&str>)| {
            CandidateVerdict::not_executed(facts.clone(), format!("{why}; checked: {}", checked.join("; ")))
        };
        let flavor = checks.first().map_or(Flavor::Rtx, |check| check.manifest.flavor);
        let paths = match WorkerPaths::find(flavor, &lookup_for(flavor, both, self.lookup)) {
            Ok(paths) => paths,
            Err(error) => {
                let why = format!("there is no worker to run it: {error}");
                let checked = checks.iter().map(|check| check.checked.iter().map(String::as_str).collect());
                return Ok(facts.iter().zip(checked).map(|(facts, checked)| not_executed((facts, &why, checked))).collect());
            }
        };
        let mut loaded = match open_plans(&paths, checks, &self.open.device) {
            Ok(OpenedPlans::Session(loaded)) => loaded,
            Ok(OpenedPlans::NotExecuted(NotExecuted { why, checked })) => {
                // Of the lines of all plans, each verdict has its own.
                let own = |plan: &PlanCandidate| {
                    let prefix = format!("{}: ", plan.path.file_name().unwrap_or_default().to_string_lossy());
                    checked.iter().filter_map(|line| line.strip_prefix(&prefix)).collect()
                };
                return Ok(facts.iter().zip(plans).map(|(facts, plan)| not_executed((facts, &why, own(plan)))).collect());
            }
            Err(error) => return Ok(facts.into_iter().map(|facts| CandidateVerdict::failed(facts, error.to_string())).collect()),
        };
        let names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
        let what = format!("{} on tensorrt", names.join(" and "));
        let Some(first) = facts.first().cloned() else { return Ok(Vec::new()) };
        let judged = self.judge(Candidate { session: &mut *loaded.session, facts: first }, PLANS_STORE_SCORES, &what, progress)?;
        Ok(facts.into_iter().map(|facts| CandidateVerdict { facts, ..judged.clone() }).collect())
    }
}

fn folder_of(plan: &PlanCandidate) -> &Path {
    plan.path.parent().unwrap_or(Path::new(""))
}

fn graph_facts(graph: &GraphCandidate, runtime: RuntimeKind, compute: DType) -> CandidateFacts {
    let (path, runtime) = (graph.name.clone(), runtime.to_string());
    CandidateFacts { path, sha256: graph.sha256, runtime, storage: graph.storage(), compute }
}

fn plan_facts(plan: &PlanCandidate, manifest: &PlanManifest) -> CandidateFacts {
    let cache = manifest.inputs.iter().find(|input| input.name.starts_with("past_key_values."));
    let compute = cache.map_or(DType::F32, |input| input.dtype);
    let (path, runtime) = (plan.name.clone(), RuntimeKind::TensorRt.to_string());
    CandidateFacts { path, sha256: manifest.plan.sha256, runtime, storage: compute, compute }
}

/// The verdict on a graph of ours that does not hold its source's weights: nothing more need be run.
pub(crate) fn unlike_its_source(graph: &GraphCandidate, runtime: RuntimeKind, error: &plansmith_lowering::Error) -> CandidateVerdict {
    let facts = graph_facts(graph, runtime, graph.compute());
    CandidateVerdict { verdict: Outcome::Disagree, ..CandidateVerdict::failed(facts, format!("static audit: {error}")) }
}

/// The first block whose activations no fp16 number holds. A runtime that widens fp16 (rten always, ONNX Runtime on CPUs in most
/// operators) does not show it; a GPU does.
pub(crate) fn first_overflow(ranges: &[LayerRange]) -> Option<(FirstDivergence, String)> {
    let limit = f16::MAX.to_f32();
    let (layer, (block, value)) = ranges.iter().enumerate().find_map(|(layer, range)| Some((layer, range.beyond(limit)?)))?;
    let problem = format!(
        "layer {layer}, {block}: activations reach {value:.3e} in the reference, beyond fp16's {limit}: the graph computes in fp16 and \
         gives infinity there on hardware that does; export it with --compute fp32 or bf16"
    );
    Some((FirstDivergence::at(Some(layer), block), problem))
}
