//! Graphs and plans against their source: where reference, runtimes and verify meet.

use std::path::{Path, PathBuf};

use half::f16;

use plansmith_checkpoint::{Audit, Scan, audit, cache_folder};
use plansmith_engine::{PlanCheck, check_plan, manifest_path};
use plansmith_files::{Digest, sha256_file};
use plansmith_lowering::{Source, audit_initializers};
use plansmith_onnx::{ExternalData, ModelProto, dtype, encode};
use plansmith_reference::{LayerRange, Reference};
use plansmith_runtime::{GraphSource, OpenOptions, RuntimeKind, load};
use plansmith_tensor::DType;
use plansmith_verify::{
    Candidate, CandidateFacts, CandidateVerdict, Capture, CheckName, Evidence, FirstDivergence, Golden, GoldenFacts, Keep, OracleAgreement,
    Oracles, Outcome, Precision, PromptFacts, Prompts, REFERENCE_PRODUCER, SourceFacts, Tolerance, Verdict,
};

use crate::Error;

/// A graph to be checked.
#[derive(Debug)]
pub struct GraphCandidate {
    /// What the verdict calls it.
    pub name: String,
    /// The graph.
    pub model: ModelProto,
    /// Where it is on disk; `None` for one in memory.
    pub path: Option<PathBuf>,
    /// Where its external data lies.
    pub folder: PathBuf,
    /// SHA-256 of its bytes.
    pub sha256: Digest,
}

impl GraphCandidate {
    /// A graph on disk.
    ///
    /// # Errors
    /// It cannot be read or is no ONNX graph.
    pub fn file(path: &Path, name: &str) -> Result<Self, Error> {
        let model = plansmith_onnx::load(path)?;
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        Ok(Self { name: name.to_owned(), model, path: Some(path.to_owned()), folder, sha256: sha256_file(path)? })
    }

    /// A graph that is nowhere on disk, whose weights lie in `folder`.
    pub fn memory(model: ModelProto, folder: &Path, name: &str) -> Self {
        let sha256 = Digest::of(&encode(&model));
        Self { name: name.to_owned(), model, path: None, folder: folder.to_owned(), sha256 }
    }

    fn source(&self) -> GraphSource<'_> {
        match &self.path {
            Some(path) => GraphSource::File(path),
            None => GraphSource::Memory { model: &self.model, folder: &self.folder },
        }
    }

    /// Whether plansmith wrote it: then every initializer that bears a tensor's name must hold that tensor.
    fn is_ours(&self) -> bool {
        self.model.metadata_props.iter().any(|entry| entry.key() == "plansmith.version")
    }

    /// What it says it computes in: the dtype of its cache, fp32 where it has none.
    fn compute(&self) -> DType {
        let inputs = plansmith_onnx::signature(&self.model).map(|signature| signature.inputs).unwrap_or_default();
        let cache = inputs.iter().find(|input| input.name.starts_with("past_key_values."));
        cache.map_or(DType::F32, |input| input.dtype)
    }

    /// The dtype that most bytes of its stored tensors have.
    fn storage(&self) -> DType {
        let mut bytes: Vec<(DType, u64)> = Vec::new();
        for tensor in plansmith_onnx::tensors(&self.model) {
            let Some(dtype) = dtype(tensor.data_type()) else { continue };
            let external = ExternalData::of(tensor).ok().flatten().and_then(|data| data.length);
            let size = external.unwrap_or(tensor.raw_data().len() as u64);
            match bytes.iter_mut().find(|entry| entry.0 == dtype) {
                Some(entry) => entry.1 += size,
                None => bytes.push((dtype, size)),
            }
        }
        bytes.into_iter().max_by_key(|entry| entry.1).map_or(DType::F32, |entry| entry.0)
    }
}

/// A plan to be checked.
#[derive(Debug)]
pub struct PlanCandidate {
    /// What the verdict calls it.
    pub name: String,
    /// The plan; its manifest lies beside it.
    pub path: PathBuf,
}

/// Whose logits count besides the reference's, and for which prompts.
#[derive(Debug)]
pub struct Assessment<'a> {
    /// The checkpoint.
    pub source: &'a Source,
    /// How the user named it, and its revision.
    pub source_name: &'a str,
    /// Revision, where known.
    pub revision: Option<&'a str>,
    /// Graphs, each run on every runtime.
    pub graphs: &'a [GraphCandidate],
    /// Plans.
    pub plans: &'a [PlanCandidate],
    /// What executes graphs.
    pub runtimes: &'a [RuntimeKind],
    /// Logits computed elsewhere.
    pub golden: Option<&'a Path>,
    /// What the reference is asked, and where that comes from: `builtin` or a file.
    pub prompts: &'a Prompts,
    /// As above.
    pub prompts_origin: &'a str,
    /// Where the reference's logits are kept as a golden file; `None` for memory.
    pub keep: Option<&'a Path>,
    /// How runtimes are opened.
    pub open: &'a OpenOptions,
}

/// Where an assessment stands.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// Bytes of the source read and hashed so far.
    Hashed(u64),
    /// A check of `what` (the reference, or a candidate on a runtime).
    Check {
        /// What is being run.
        what: &'a str,
        /// Which check.
        check: CheckName,
        /// Which prompt set.
        set: &'a str,
    },
}

/// Hashes the source and refuses NaN and infinity in it; the result is remembered for the next time.
///
/// # Errors
/// A file cannot be read, or a tensor holds a value that is not finite: names file and tensor.
pub fn audit_source(source: &Source, progress: &(dyn Fn(u64) + Sync)) -> Result<Audit, Error> {
    let audit = audit(&source.checkpoint, cache_folder().as_deref(), progress)?;
    if let Some((file, tensor, scan)) = audit.not_finite().next() {
        let path = source.checkpoint.dir().join(&file.name);
        return Err(Error::NotFinite { path, tensor: tensor.to_owned(), seen: describe(scan) });
    }
    Ok(audit)
}

fn describe(scan: Scan) -> String {
    let place = |what: &str, index: Option<u64>| index.map(|index| format!("{what} at element {index}"));
    let places: Vec<String> = [place("NaN", scan.nan), place("infinity", scan.infinite)].into_iter().flatten().collect();
    places.join(", ")
}

/// Checks every candidate; the source is read once, the reference is run once.
///
/// # Errors
/// The source is broken, an oracle cannot be read or run, or a runtime is missing: nothing is then concluded.
pub fn assess(assessment: &Assessment<'_>, audited: &Audit, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Verdict, Error> {
    let spec = &assessment.source.loaded.spec;
    let vocab = spec.vocab_size as usize;
    let mut reference = Reference::open(spec.clone(), &assessment.source.checkpoint)?;
    let checking = |what: &str, inner: plansmith_verify::Progress<'_>, progress: &mut dyn FnMut(Progress<'_>)| {
        progress(Progress::Check { what, check: inner.check, set: inner.set });
    };

    let golden = assessment.golden.map(|path| read_golden(path, spec.vocab_size, spec.max_positions)).transpose()?;
    let agreement = golden
        .as_ref()
        .map(|(golden, _)| OracleAgreement::between(&mut reference, golden, &mut |inner| checking("reference", inner, progress)));
    let keep = assessment.keep.map_or(Keep::Memory, Keep::File);
    let capture = Capture::record(&mut reference, assessment.prompts, vocab, keep, REFERENCE_PRODUCER, &mut |inner| {
        checking("reference", inner, progress);
    })?;
    let overflow = first_overflow(reference.ranges());
    drop(reference);

    let prompts = PromptFacts::of(assessment.prompts, assessment.prompts_origin);
    let oracles = match &golden {
        Some((golden, _)) => Oracles::Both(golden, &capture),
        None => Oracles::Reference(&capture),
    };
    let mut verdicts = Vec::new();
    for graph in assessment.graphs {
        let audit = if graph.is_ours() { audit_initializers(&graph.model, &graph.folder, assessment.source).map(drop) } else { Ok(()) };
        for &runtime in assessment.runtimes {
            let what = format!("{} on {runtime}", graph.name);
            let facts = |compute| CandidateFacts {
                path: graph.name.clone(),
                sha256: graph.sha256,
                runtime: runtime.to_string(),
                storage: graph.storage(),
                compute,
            };
            if let Err(error) = &audit {
                let failed = CandidateVerdict::failed(facts(graph.storage()), format!("static audit: {error}"));
                verdicts.push(CandidateVerdict { verdict: Outcome::Disagree, ..failed });
                continue;
            }
            let mut loaded = load(runtime, graph.source(), assessment.open)?;
            let facts = facts(loaded.facts.compute);
            let declared = graph.compute();
            let verdict = match tolerance(assessment.source, &facts) {
                Err(problem) => CandidateVerdict::failed(facts, problem),
                Ok(tolerance) => {
                    let candidate = Candidate { session: &mut *loaded.session, facts };
                    oracles.judge(candidate, &tolerance, &mut |inner| checking(&what, inner, progress))
                }
            };
            verdicts.push(match &overflow {
                Some((divergence, problem)) if declared == DType::F16 && verdict.verdict == Outcome::Agree => CandidateVerdict {
                    verdict: Outcome::Disagree,
                    reason: Some(problem.clone()),
                    first_divergence: Some(divergence.clone()),
                    ..verdict
                },
                _ => verdict,
            });
        }
    }
    for plan in assessment.plans {
        verdicts.push(judge_plan(plan)?);
    }

    let evidence = match (golden, agreement) {
        (Some((_, facts)), Some(agreement)) => Evidence::Both(facts, prompts, agreement),
        _ => Evidence::Reference(prompts),
    };
    let source = SourceFacts {
        path: assessment.source_name.to_owned(),
        revision: assessment.revision.map(str::to_owned),
        sha256: audited.files.iter().map(|file| (file.name.clone(), file.sha256)).collect(),
    };
    Ok(Verdict::conclude(source, evidence, verdicts))
}

fn read_golden(path: &Path, vocab: u64, max_positions: u64) -> Result<(Golden, GoldenFacts), Error> {
    let golden = Golden::open(path)?;
    golden.check_fits(vocab as usize, max_positions as usize)?;
    let producer = golden.producer().map(str::to_owned);
    Ok((golden, GoldenFacts { path: path.display().to_string(), sha256: sha256_file(path)?, producer }))
}

fn tolerance(source: &Source, facts: &CandidateFacts) -> Result<Tolerance, String> {
    let stored = source.checkpoint.get(&source.loaded.spec.embedding.weight.name).map_or(DType::F32, |tensor| tensor.dtype);
    Ok(Tolerance::of(Precision::between(stored, facts.storage, facts.compute)?))
}

/// The first block whose activations no fp16 number holds. A runtime that widens fp16 (rten always, ONNX Runtime on CPUs in most
/// operators) does not show it; a GPU does.
fn first_overflow(ranges: &[LayerRange]) -> Option<(FirstDivergence, String)> {
    let limit = f16::MAX.to_f32();
    let (layer, (block, value)) = ranges.iter().enumerate().find_map(|(layer, range)| Some((layer, range.beyond(limit)?)))?;
    let problem = format!(
        "layer {layer}, {block}: activations reach {value:.3e} in the reference, beyond fp16's {limit}: the graph computes in fp16 and \
         gives infinity there on hardware that does; export it with --compute fp32 or bf16"
    );
    Some((FirstDivergence { layer, block: block.to_owned() }, problem))
}

/// What can be said of a plan on this host: its structure, its header against its manifest, its hash.
fn judge_plan(plan: &PlanCandidate) -> Result<CandidateVerdict, Error> {
    let PlanCheck { manifest, checked } = check_plan(&plan.path, &manifest_path(&plan.path))?;
    let cache = manifest.inputs.iter().find(|input| input.name.starts_with("past_key_values."));
    let compute = cache.map_or(DType::F32, |input| input.dtype);
    let facts = CandidateFacts {
        path: plan.name.clone(),
        sha256: manifest.plan.sha256,
        runtime: RuntimeKind::TensorRt.to_string(),
        storage: compute,
        compute,
    };
    let reason = format!("plans are not executed without a GPU of their architecture; checked: {}", checked.join("; "));
    Ok(CandidateVerdict::not_executed(facts, reason))
}
