//! The main job: every stage of a pipeline, into a bundle.

mod prepared;
mod run;
mod seal;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use plansmith_engine::{Farm, FarmEvent, Lookup, Models};
use plansmith_files::{Digest, FolderLock, create_dir_all, remove_marked};
use plansmith_lowering::Source;
use plansmith_runtime::OpenOptions;
use plansmith_verify::{Outcome, Prompts, Verdict};

use self::prepared::{Prepared, job, prepare, tools};
use self::run::Run;
use crate::file::Layout;
use crate::manifest::Manifest;
use crate::output::MARKS;
use crate::provenance::PROVENANCE_NAME;
use crate::stages::{BUNDLE, PlanStage, Stages, VERIFY};
use crate::store::{StageFiles, Store};
use crate::{Error, Fanout, Progress, fanout, space};

/// What a build is told besides its file.
pub struct BuildOptions<'a> {
    /// `--set`.
    pub overrides: &'a [String],
    /// Run stages up to and including this one.
    pub stage: Option<&'a str>,
    /// Run these stages and what they need, and nothing else; all where there is none.
    pub only: &'a [String],
    /// Partial bundles that were made elsewhere: nothing but to verify may be left to do.
    pub parts: Option<&'a [PathBuf]>,
    /// Run every stage anew.
    pub force: bool,
    /// Whether an artifact that was not executed is a failure.
    pub require_executed: bool,
    /// Version, commit and target of this plansmith.
    pub version: &'a str,
    /// How runtimes are opened.
    pub open: &'a OpenOptions,
    /// Where the worker and TensorRT are.
    pub lookup: &'a Lookup,
    /// How plans are built, and where they are kept.
    pub farm: &'a Farm,
    /// Prompts of a JSONL file, whose texts need the checkpoint's tokenizer.
    pub read_prompts: &'a dyn Fn(&Source, &Path) -> Result<Prompts, String>,
}

/// Where a build stands.
#[derive(Debug)]
pub enum Event<'a> {
    /// The stages of this run, in order, once they are known.
    Stages(&'a [String]),
    /// A stage begins, or what comes before all of them: [`SOURCE`], [`PARTS`].
    Begin(&'a str),
    /// How many bytes of a stage are done, and how many there are.
    Bytes(&'a str, u64, u64),
    /// What happens to plans, and the stage that it happens to.
    Farm(Option<&'a str>, FarmEvent<'a>),
    /// A check runs.
    Check(Progress<'a>),
    /// A stage ended; whether it was taken over.
    End(&'a str, Duration, bool),
}

/// The source is hashed and looked through, before the stages are known.
pub const SOURCE: &str = "source";
/// The parts of a merge are hashed and copied.
pub const PARTS: &str = "parts";

/// How a build ended.
#[derive(Debug)]
pub enum Built {
    /// The bundle is there already, made by the same recipe.
    UpToDate(Finished),
    /// The bundle was written.
    Done(Finished),
    /// An artifact disagrees: the last good bundle is untouched, the failed one lies beside it.
    Failed(Finished),
    /// Stages up to the one named are done.
    Stopped {
        /// The last stage that ran.
        stage: String,
        /// Where its files are.
        folder: PathBuf,
        /// What verification found, where it was among them.
        verdict: Option<Verdict>,
    },
}

/// A bundle.
#[derive(Debug)]
pub struct Finished {
    /// Where it is.
    pub folder: PathBuf,
    /// SHA-256 of its manifest.
    pub manifest_sha256: Digest,
    /// Its manifest.
    pub manifest: Manifest,
    /// Its verdict, where it was made in this run.
    pub verdict: Option<Verdict>,
}

/// A stage as `--plan-only` lists it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct StagePlan {
    /// Its name.
    pub name: String,
    /// Whether its files would be taken over.
    pub cached: bool,
}

/// The stages that a build would be for, and which of them would be taken over. Runs nothing.
///
/// # Errors
/// As [`build`], before its first stage.
pub fn plan(path: &Path, options: &BuildOptions<'_>) -> Result<Vec<StagePlan>, Error> {
    let prepared = prepare(path, options, &mut |_| {})?;
    let stages = &prepared.stages;
    let wanted = wanted(stages, options)?;
    let done = !options.force && up_to_date(&prepared, options)?.is_some();
    let store = Store::open(&prepared.output.filled, &prepared.output.bundle);
    let has = |name: &str, key| done || (!options.force && store.has(name, key));
    let mut listed: Vec<StagePlan> =
        stages.exports.iter().map(|stage| StagePlan { cached: has(&stage.name(), stage.key), name: stage.name() }).collect();
    let farm = Farm { fresh: options.force, ..options.farm.clone() };
    let mut models = Models::default();
    for stage in &stages.plans {
        let name = stage.name(&stages.exports);
        // Only the graph itself tells whether the cache has its plans: one that is yet to be exported does not.
        let graph = &stages.exports[stage.from];
        let cached = match store.place(&graph.name(), graph.key) {
            _ if has(&name, stage.key) => true,
            Some(folder) if !options.force && stage.tools.is_ok() => farm.is_cached(&job(&prepared, stage, folder)?, &mut models)?,
            _ => false,
        };
        listed.push(StagePlan { name, cached });
    }
    listed.extend([VERIFY, BUNDLE].map(|name| StagePlan { name: name.into(), cached: done }));
    listed.retain(|stage| wanted.contains(&stage.name));
    Ok(listed)
}

/// The bundle that is there, if it is of the same recipe, agrees, and all its files have the sizes that its manifest says.
fn up_to_date(prepared: &Prepared, options: &BuildOptions<'_>) -> Result<Option<Finished>, Error> {
    let Ok((manifest, manifest_sha256)) = Manifest::read(&prepared.output.bundle) else { return Ok(None) };
    let whole = || {
        let there = |name: &str, bytes: u64| {
            plansmith_files::metadata(&prepared.output.bundle.join(name)).is_ok_and(|metadata| metadata.len() == bytes)
        };
        let said = plansmith_files::is_file(&prepared.output.bundle.join(PROVENANCE_NAME));
        said && manifest.files.iter().all(|(name, record)| there(name, record.bytes))
    };
    let executed = !options.require_executed || manifest.verdict.not_executed.is_empty();
    if manifest.recipe != prepared.stages.recipe || manifest.verdict.verdict != Outcome::Agree.name() || !executed || !whole() {
        return Ok(None);
    }
    Ok(Some(Finished { folder: prepared.output.bundle.clone(), manifest_sha256, manifest, verdict: None }))
}

/// The stages of a pipeline that machines can do apart from one another. Runs nothing.
///
/// # Errors
/// As [`build`], before its first stage; there is none that could be done apart.
pub fn cells(path: &Path, options: &BuildOptions<'_>) -> Result<Fanout, Error> {
    let prepared = prepare(path, options, &mut |_| {})?;
    if prepared.stages.exports.is_empty() {
        let problem = "is empty: there is nothing to do on many machines".to_owned();
        let hint = Some("run `plansmith build` in one job".to_owned());
        return Err(Error::Invalid { path: path.to_owned(), key: "export".into(), problem, hint });
    }
    Ok(Fanout { name: prepared.pipeline.name.0.clone(), cells: fanout::cells(&prepared.stages) })
}

/// Runs the stages of the pipeline in `path` and puts the bundle in its place; a second run with nothing changed does nothing.
///
/// A run that is killed leaves the last bundle as it was; the next run goes on with the stages that were done.
///
/// # Errors
/// The file, the source, a library or a stage: nothing is then under the bundle's name that was not there before.
pub fn build(path: &Path, options: &BuildOptions<'_>, progress: &mut dyn FnMut(Event<'_>)) -> Result<Built, Error> {
    let started = SystemTime::now();
    let prepared = prepare(path, options, progress)?;
    let wanted = wanted(&prepared.stages, options)?;
    progress(Event::Stages(&prepared.stages.names().into_iter().filter(|name| wanted.contains(name)).collect::<Vec<_>>()));
    let folder = prepared.output.filled.clone();
    if !options.force
        && options.only.is_empty()
        && options.parts.is_none()
        && let Some(finished) = up_to_date(&prepared, options)?
    {
        // What a run that was killed left for one that is no longer wanted.
        if plansmith_files::is_dir(&folder)
            && let Some(_lock) = FolderLock::take(&folder)?
        {
            remove_marked(&folder, &MARKS)?;
        }
        return Ok(Built::UpToDate(finished));
    }
    // Told before exports and checks take their time.
    let is_wanted = |stage: &&PlanStage| wanted.contains(VERIFY) || wanted.contains(&stage.name(&prepared.stages.exports));
    prepared.stages.plans.iter().filter(is_wanted).try_for_each(|stage| tools(&prepared, stage).map(drop))?;
    let on_a_gpu = |stage: &&PlanStage| wanted.contains(&stage.name(&prepared.stages.exports)) && stage.lacks_gpu();
    if let Some(stage) = prepared.stages.plans.iter().find(on_a_gpu) {
        return Err(Error::NoGpu { stage: stage.name(&prepared.stages.exports) });
    }
    create_dir_all(&folder)?;
    let Some(_lock) = FolderLock::take(&folder)? else { return Err(Error::Busy { path: folder }) };
    let mut store = Store::open(&folder, &prepared.output.bundle);
    if options.force {
        store.clear(&StageFiles::new())?;
    }
    store.create()?;
    if let Some(parts) = options.parts {
        let start = Instant::now();
        progress(Event::Begin(PARTS));
        fanout::join(&mut store, &prepared.stages, parts, &mut |done, total| progress(Event::Bytes(PARTS, done, total)))?;
        progress(Event::End(PARTS, start.elapsed(), false));
    }
    let twice = prepared.pipeline.layouts.contains(&Layout::Triton);
    space::check(&folder, prepared.source.checkpoint.dir(), (&prepared.stages, twice), &store, &wanted)?;
    let mut run = Run { prepared: &prepared, options, folder: &folder, store: &mut store, files: StageFiles::new(), started };
    for stage in prepared.stages.exports.iter().filter(|stage| wanted.contains(&stage.name())) {
        run.stage(&stage.name(), stage.key, progress, |run, progress| run.export(stage, progress))?;
    }
    let plans = prepared.stages.plans.iter().filter(|stage| wanted.contains(&stage.name(&prepared.stages.exports)));
    run.engines(&plans.collect::<Vec<_>>(), progress)?;
    let stopped = |folder, verdict| {
        let stage = options.stage.map_or_else(|| options.only.join(", "), str::to_owned);
        Built::Stopped { stage, folder, verdict }
    };
    if !wanted.contains(VERIFY) {
        return Ok(stopped(folder, None));
    }
    let start = Instant::now();
    progress(Event::Begin(VERIFY));
    let verdict = run.verify(progress)?;
    progress(Event::End(VERIFY, start.elapsed(), false));
    if !wanted.contains(BUNDLE) {
        return Ok(stopped(folder, Some(verdict)));
    }
    progress(Event::Begin(BUNDLE));
    let start = Instant::now();
    let finished = run.bundle(verdict)?;
    progress(Event::End(BUNDLE, start.elapsed(), false));
    Ok(finished)
}

/// The stages that a run is for: some alone, those up to one (`export` means all exports), or all.
fn wanted(stages: &Stages, options: &BuildOptions<'_>) -> Result<BTreeSet<String>, Error> {
    if !options.only.is_empty() {
        return fanout::needed(stages, options.only);
    }
    let names = stages.names();
    let Some(name) = options.stage else { return Ok(names.into_iter().collect()) };
    let matches = |stage: &String| stage == name || stage.starts_with(&format!("{name}:"));
    match names.iter().rposition(matches) {
        Some(last) => Ok(names.into_iter().take(last + 1).collect()),
        None => Err(Error::UnknownStage { name: name.to_owned(), known: names }),
    }
}
