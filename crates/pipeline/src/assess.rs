//! Graphs and plans against their source: where reference, runtimes and verify meet.

use std::collections::BTreeSet;
use std::path::Path;

use plansmith_checkpoint::{Audit, Checkpoint, Scan, audit};
use plansmith_engine::{Lookup, manifest_path};
use plansmith_families::DecoderSpec;
use plansmith_files::{Digest, cache_folder, sha256_file};
use plansmith_lowering::{Source, audit_initializers};
use plansmith_reference::{LayerRange, Reference};
use plansmith_runtime::{OpenOptions, RuntimeKind};
use plansmith_tensor::DType;
use plansmith_verify::{
    CandidateVerdict, Capture, CheckName, Evidence, Golden, GoldenFacts, Keep, LayerPeaks, Limits, OracleAgreement, Oracles, Outcome,
    Precision, PromptFacts, Prompts, REFERENCE_PRODUCER, SourceFacts, Standard, Verdict,
};

use crate::Error;
use crate::bisect::bisect;
use crate::candidates::{GraphCandidate, PlanCandidate};
use crate::judge::{Judge, first_overflow, unlike_its_source};
use crate::manifest::{GraphRecord, Manifest};
use crate::noise::{Floors, Kind, NOISE_NAME};

/// A bundle's logits.
pub(crate) const GOLDEN_NAME: &str = "golden.safetensors";

/// A static cache of more slots is not filled: attention over them all, in the reference too, takes minutes.
const MOST_SLOTS: u64 = 1024;

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
    /// Where the noise floors are kept, for whoever has the logits and not the source; `None`: nowhere.
    pub keep_noise: Option<&'a Path>,
    /// Limits that replace those that the noise floors give.
    pub limits: Limits,
    /// How runtimes are opened.
    pub open: &'a OpenOptions,
    /// Where the worker that runs plans is.
    pub lookup: &'a Lookup,
    /// Whether to look into a graph that disagrees for the first layer and block that differ.
    pub bisect: bool,
}

/// The check of `what` (the reference, or a candidate on a runtime) that begins.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// What is being run.
    pub what: &'a str,
    /// Which check.
    pub check: CheckName,
    /// Which prompt set.
    pub set: &'a str,
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

/// Refuses a source whose files are not what they were when `audited`; where their times say that they are, nothing is read.
///
/// # Errors
/// Names the file, with both sides.
pub(crate) fn unchanged(source: &Source, audited: &Audit) -> Result<(), Error> {
    let folder = source.checkpoint.dir();
    let changed = |name: &str, was: Digest, now: String| {
        let problem = format!("changed while the build ran: it had the SHA-256 {was}, and now {now}; build again when nobody writes to it");
        Err(Error::Pin { path: folder.join(name), problem })
    };
    let config = sha256_file(&folder.join("config.json"))?;
    if config != source.config_digest {
        return changed("config.json", source.config_digest, config.to_string());
    }
    let now = audit(&Checkpoint::open(folder)?, cache_folder().as_deref(), &|_| ())?;
    for file in &audited.files {
        let found = now.files.iter().find(|now| now.name == file.name).map(|now| now.sha256);
        if found != Some(file.sha256) {
            return changed(&file.name, file.sha256, found.map_or_else(|| "is gone".to_owned(), |found| found.to_string()));
        }
    }
    Ok(())
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
        progress(Progress { what, check: inner.check, set: inner.set });
    };

    let golden = assessment.golden.map(|path| read_golden(path, spec)).transpose()?;
    let keep = assessment.keep.map_or(Keep::Memory, Keep::File);
    let capture = Capture::record(&mut reference, assessment.prompts, vocab, keep, REFERENCE_PRODUCER, &mut |inner| {
        checking("reference", inner, progress);
    })?;
    let overflow = first_overflow(reference.ranges());
    let peaks = reference.ranges().iter().map(peaks).collect();
    let mut floors = Floors::new(assessment.source, &mut reference, &capture, golden.as_ref().map(|(golden, _)| golden));
    floors.prepare(Kind::fp32())?;
    // A config that was misread shows by hundredths of the logits' deviation and more: fixed limits tell it from noise.
    let standard = Standard::fixed(Precision::Fp32);
    let agreement = golden.as_ref().map(|(golden, _)| {
        OracleAgreement::between(&mut reference, golden, &standard, &mut |inner| checking("reference", inner, progress))
    });
    drop(reference);

    let prompts = PromptFacts::of(assessment.prompts, assessment.prompts_origin);
    let oracles = match &golden {
        Some((golden, _)) => Oracles::Both(golden, &capture),
        None => Oracles::Reference(&capture),
    };
    let foresee = assessment.keep_noise.is_some();
    let mut judge =
        Judge { oracles, floors, foresee, limits: assessment.limits, overflow, open: assessment.open, lookup: assessment.lookup };
    let mut verdicts = Vec::new();
    for graph in assessment.graphs {
        let ours = graph.is_ours();
        let first = verdicts.len();
        let audit = if ours { audit_initializers(&graph.model, &graph.folder, assessment.source).map(drop) } else { Ok(()) };
        match audit {
            Ok(()) => verdicts.extend(judge.graph(graph, assessment.runtimes, progress)?),
            Err(error) => {
                let runtimes = if assessment.runtimes.is_empty() { &[RuntimeKind::Rten] } else { assessment.runtimes };
                verdicts.extend(runtimes.iter().map(|&runtime| unlike_its_source(graph, runtime, &error)));
            }
        }
        for verdict in verdicts[first..].iter_mut().filter(|_| assessment.bisect) {
            if let Ok(runtime) = verdict.facts.runtime.parse() {
                look_into(assessment, graph, runtime, judge.floors.stored, verdict);
            }
        }
    }
    verdicts.extend(judge.plans(assessment.plans, progress)?);
    if let Some(path) = assessment.keep_noise {
        judge.floors.write(path, golden.is_some())?;
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
    Ok(Verdict::conclude(source, evidence, verdicts).with_ranges(peaks))
}

fn peaks(range: &LayerRange) -> LayerPeaks {
    LayerPeaks { self_attn: range.self_attn.into(), mlp: range.mlp.into(), residual: range.residual.into() }
}

/// Adds to the verdict on a graph that disagrees where it first does.
fn look_into(assessment: &Assessment<'_>, graph: &GraphCandidate, runtime: RuntimeKind, stored: DType, verdict: &mut CandidateVerdict) {
    if verdict.verdict != Outcome::Disagree || verdict.first_divergence.is_some() {
        return;
    }
    let precision = Precision::between(stored, verdict.facts.storage, verdict.facts.compute);
    let found = precision.and_then(|precision| bisect(graph, runtime, assessment.open, assessment.source, assessment.prompts, precision));
    match found {
        Ok(found) => verdict.first_divergence = Some(found),
        Err(why) => {
            let reason = verdict.reason.take().unwrap_or_default();
            verdict.reason = Some(format!("{reason}; {why}"));
        }
    }
}

/// The built-in prompts, as far as they suit the source.
///
/// # Errors
/// The vocabulary is empty.
pub fn builtin(spec: &DecoderSpec) -> Result<Prompts, plansmith_verify::Error> {
    builtin_within(spec, None)
}

/// As [`builtin`], for a static cache of so many slots, where one is to be checked: no prompt is longer, and one fills it to the last slot,
/// unless that takes minutes.
///
/// # Errors
/// The vocabulary is empty.
pub fn builtin_within(spec: &DecoderSpec, slots: Option<u64>) -> Result<Prompts, plansmith_verify::Error> {
    let window = spec.layers.iter().filter_map(|layer| layer.attention.window).min();
    let filled = slots.filter(|slots| *slots <= MOST_SLOTS).map(|slots| slots.saturating_sub(Prompts::PAST_SPECIAL as u64));
    let special: Vec<usize> = [window, spec.switch_length(), filled].into_iter().flatten().map(|length| length as usize).collect();
    let positions = slots.map_or(spec.max_positions, |slots| slots.min(spec.max_positions));
    let prompts = Prompts::builtin(spec.vocab_size as usize, positions as usize, &special)?;
    Ok(prompts.switching_at(spec.switch_length().map(|length| length as usize)))
}

fn read_golden(path: &Path, spec: &DecoderSpec) -> Result<(Golden, GoldenFacts), Error> {
    let golden = Golden::open(path)?.switching_at(spec.switch_length().map(|length| length as usize));
    golden.check_fits(spec.vocab_size as usize, spec.max_positions as usize)?;
    let producer = golden.producer().map(str::to_owned);
    Ok((golden, GoldenFacts { path: path.display().to_string(), sha256: sha256_file(path)?, producer }))
}

/// The artifacts of a bundle, or those given, against the logits and within the noise floors that it holds: no source, no reference.
///
/// # Errors
/// The bundle's manifest or golden cannot be read, or a runtime is missing.
pub fn assess_bundle(
    bundle: &Path,
    artifacts: Option<(Vec<GraphCandidate>, Vec<PlanCandidate>)>,
    runtimes: &[RuntimeKind],
    limits: Limits,
    open: &OpenOptions,
    lookup: &Lookup,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Verdict, Error> {
    let (manifest, _) = Manifest::read(bundle)?;
    // What the artifacts are held to has to be what the bundle was sealed with.
    let sha256 = sealed(bundle, &manifest, GOLDEN_NAME)?;
    sealed(bundle, &manifest, NOISE_NAME)?;
    let path = bundle.join(GOLDEN_NAME);
    let golden = Golden::open(&path)?.switching_at(manifest.source.switch_length.map(|length| length as usize));
    let facts = GoldenFacts { path: path.display().to_string(), sha256, producer: golden.producer().map(str::to_owned) };
    let (graphs, plans) = match artifacts {
        Some(artifacts) => artifacts,
        None => {
            // What the verdict is about are the files that the manifest names.
            let graphs = manifest.graphs.iter().flat_map(|graph| std::iter::once(&graph.path).chain(&graph.weights));
            graphs.collect::<BTreeSet<_>>().into_iter().try_for_each(|name| sealed(bundle, &manifest, name).map(drop))?;
            let graph = |record: &GraphRecord| GraphCandidate::file(&bundle.join(&record.path), &record.path);
            (manifest.graphs.iter().map(graph).collect::<Result<_, _>>()?, sealed_plans(bundle, &manifest)?)
        }
    };
    let untouched = manifest.graphs.iter().find(|graph| graph.target.storage.is_none());
    let stored = untouched.map_or(DType::F32, |graph| graph.storage.dtype());
    let floors = Floors::read(&bundle.join(NOISE_NAME), &golden, stored)?;
    let mut judge = Judge { oracles: Oracles::Golden(&golden), floors, foresee: false, limits, overflow: None, open, lookup };
    let mut verdicts = Vec::new();
    for graph in &graphs {
        verdicts.extend(judge.graph(graph, runtimes, progress)?);
    }
    verdicts.extend(judge.plans(&plans, progress)?);
    let source = SourceFacts { path: manifest.source.checkpoint, revision: manifest.source.revision, sha256: manifest.source.sha256 };
    Ok(Verdict::conclude(source, Evidence::Golden(facts), verdicts))
}

/// The SHA-256 of a bundle's file, which is that of its manifest.
fn sealed(bundle: &Path, manifest: &Manifest, name: &str) -> Result<Digest, Error> {
    let path = bundle.join(name);
    let bytes = plansmith_files::metadata(&path)?.len();
    if let Some(record) = manifest.files.get(name).filter(|record| record.bytes != bytes) {
        return Err(Error::Bundle { path, problem: format!("has {bytes} bytes; the manifest says {}", record.bytes) });
    }
    let found = sha256_file(&path)?;
    is_sealed(bundle, manifest, name, found).map(|()| found)
}

/// The plans of a bundle: their manifests are the bundle's, and say of them what the bundle's manifest says.
fn sealed_plans(bundle: &Path, manifest: &Manifest) -> Result<Vec<PlanCandidate>, Error> {
    let names = || manifest.plans.iter().map(|record| record.path.clone());
    for name in names() {
        sealed(bundle, manifest, &manifest_path(Path::new(&name)).to_string_lossy())?;
    }
    let plans = PlanCandidate::files(names().map(|name| (bundle.join(&name), name)).collect())?;
    plans.iter().try_for_each(|plan| is_sealed(bundle, manifest, &plan.name, plan.check.manifest.plan.sha256))?;
    Ok(plans)
}

/// Refuses a file whose digest is another than the manifest's.
fn is_sealed(bundle: &Path, manifest: &Manifest, name: &str, found: Digest) -> Result<(), Error> {
    let fail = |problem| Err(Error::Bundle { path: bundle.join(name), problem });
    match manifest.files.get(name) {
        None => fail("is not in the manifest".into()),
        Some(record) if record.sha256 == found => Ok(()),
        Some(record) => fail(format!("has the SHA-256 {found}; the manifest says {}", record.sha256)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_changes_meanwhile_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["config.json", "model.safetensors"] {
            let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cases/llama3_rope").join(name);
            std::fs::write(folder.path().join(name), std::fs::read(from).expect("a case")).expect("a copy");
        }
        let source = Source::open(folder.path(), &plansmith_families::Options::default()).expect("a checkpoint");
        let audited = audit(&source.checkpoint, None, &|_| ()).expect("an audit");
        unchanged(&source, &audited).expect("nobody wrote");
        for name in ["model.safetensors", "config.json"] {
            let path = folder.path().join(name);
            let original = std::fs::read(&path).expect("the file");
            let mut other = original.clone();
            *other.last_mut().expect("bytes") ^= 3;
            std::fs::write(&path, other).expect("a change");
            let said = unchanged(&source, &audited).expect_err("it changed").to_string();
            assert!(said.contains(name) && said.contains("changed while the build ran"), "{said}");
            std::fs::write(&path, original).expect("the way back");
        }
        unchanged(&source, &audited).expect("the same bytes");
    }
}
