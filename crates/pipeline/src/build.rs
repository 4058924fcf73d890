//! The main job: every stage of a pipeline, into a bundle.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use plansmith_checkpoint::{Audit, commit_of_folder};
use plansmith_engine::{BuildReport, BuildRequest, Farm, FarmEvent, Job, Lookup, Models};
use plansmith_files::{Digest, FolderLock, copy_file, create_dir_all, exchange_folder, remove_marked, sha256_file, write_atomic};
use plansmith_lowering::{Dialect, Kv, Source, export};
use plansmith_runtime::OpenOptions;
use plansmith_verify::{Limits, Outcome, Prompts, Verdict};

use crate::assess::{Assessment, GOLDEN_NAME, assess, audit_source, builtin_within, unchanged};
use crate::candidates::{GraphCandidate, PlanCandidate};
use crate::clients::{Variant, check_clients, sidecars};
use crate::file::{Layout, PipelineFile, Prompts as PromptsSpec, SourceSpec};
use crate::manifest::{FileRecord, GraphRecord, MANIFEST_NAME, Manifest, PlanRecord, SourceRecord, VerdictRecord};
use crate::noise::NOISE_NAME;
use crate::output::{MARKS, Output};
use crate::provenance::PROVENANCE_NAME;
use crate::stages::{BUNDLE, ExportStage, Inputs, PlanStage, Stages, VERIFY, check_pins, companions, resolve, source_digests};
use crate::store::{StageFiles, Store};
use crate::watch::watched;
use crate::{Error, Fanout, Progress, Text, fanout, provenance, read_pipeline, repository, space};

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

/// Everything that is known before a stage runs.
struct Prepared {
    pipeline: PipelineFile,
    source: Source,
    audit: Audit,
    stages: Stages,
    prompts: Prompts,
    prompts_origin: String,
    golden: Option<PathBuf>,
    /// Graphs by others, as the pipeline names them.
    graphs: Vec<GraphCandidate>,
    companions: Vec<PathBuf>,
    output: Output,
}

impl Prepared {
    /// The commit that the pipeline pins, else the one that the checkpoint's folder says.
    fn revision(&self) -> Option<String> {
        let pinned = self.pipeline.source.revision.as_ref().map(|revision| revision.0.clone());
        pinned.or_else(|| commit_of_folder(self.source.checkpoint.dir()))
    }
}

fn prepare(path: &Path, options: &BuildOptions<'_>, progress: &mut dyn FnMut(Event<'_>)) -> Result<Prepared, Error> {
    let pipeline = read_pipeline(path, options.overrides)?;
    let folder = resolve(path, &pipeline.source.checkpoint.0);
    let golden = pipeline.verify.golden.as_ref().map(|text| resolve(path, &text.0));
    let mut read = vec![("the pipeline file", path), ("the checkpoint", folder.as_path())];
    read.extend(golden.iter().map(|golden| ("the golden file", golden.as_path())));
    let judged: Vec<PathBuf> = pipeline.verify.graphs.iter().map(|graph| resolve(path, &graph.0)).collect();
    read.extend(judged.iter().map(|graph| ("a graph that is judged", graph.as_path())));
    let prompts = match &pipeline.verify.prompts {
        PromptsSpec::Builtin => None,
        PromptsSpec::File(text) => Some(resolve(path, text)),
    };
    read.extend(prompts.iter().map(|prompts| ("the file of prompts", prompts.as_path())));
    let timings: Vec<PathBuf> = pipeline.engines.iter().filter_map(|engine| engine.timing_cache(path).file()).collect();
    read.extend(timings.iter().map(|file| ("a timing cache", file.as_path())));
    read.extend(options.parts.iter().copied().flatten().map(|part| ("a part", part.as_path())));
    let output = Output::at(path, &resolve(path, &pipeline.output.0), &read)?;
    // Which need not be there yet.
    if let Some(file) =
        timings.iter().find(|file| [&output.bundle, &output.filled, &output.failed].iter().any(|folder| file.starts_with(folder)))
    {
        let problem =
            format!("would replace the folder that a timing cache, `{}`, is to lie in: name another place for it", file.display());
        return Err(Error::Invalid { path: path.to_owned(), key: "output".into(), problem, hint: None });
    }
    let SourceSpec { allow_unknown_config, max_length, .. } = &pipeline.source;
    let reading = plansmith_families::Options { allow_unknown_config: allow_unknown_config.clone(), max_length: *max_length };
    let source = Source::open(&folder, &reading)?;
    let (start, total) = (Instant::now(), source.checkpoint.files().iter().map(|file| file.size).sum());
    progress(Event::Begin(SOURCE));
    let audit = watched(|report| audit_source(&source, report), &mut |bytes| progress(Event::Bytes(SOURCE, bytes, total)))?;
    progress(Event::End(SOURCE, start.elapsed(), false));
    check_pins(path, &pipeline, &source, &audit)?;
    let graph = |text: &Text| GraphCandidate::file(&resolve(path, &text.0), &text.0);
    let graphs = pipeline.verify.graphs.iter().map(graph).collect::<Result<Vec<_>, _>>()?;
    let spec = &source.loaded.spec;
    let (prompts, prompts_origin) = match &pipeline.verify.prompts {
        PromptsSpec::Builtin => {
            let is_static = pipeline.export.iter().any(|export| export.kv == Kv::Static);
            let slots =
                source.loaded.max_length.filter(|_| is_static).into_iter().chain(graphs.iter().filter_map(GraphCandidate::static_slots));
            (builtin_within(spec, slots.min())?, "builtin".to_owned())
        }
        PromptsSpec::File(text) => {
            let file = resolve(path, text);
            let refuse = |problem| Error::Invalid { path: path.to_owned(), key: "verify.prompts".into(), problem, hint: None };
            ((options.read_prompts)(&source, &file).map_err(refuse)?, text.clone())
        }
    };
    let companions = companions(&folder);
    let stages = Stages::of(&Inputs {
        path,
        pipeline: &pipeline,
        source: &source,
        audit: &audit,
        prompts: &prompts,
        golden: golden.as_deref(),
        graphs: &graphs,
        open: options.open,
        lookup: options.lookup,
        companions: &companions,
        version: options.version,
    })?;
    Ok(Prepared { pipeline, source, audit, stages, prompts, prompts_origin, golden, graphs, companions, output })
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
            Some(folder) if !options.force => farm.is_cached(&job(&prepared, stage, folder), &mut models)?,
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

struct Run<'a> {
    prepared: &'a Prepared,
    options: &'a BuildOptions<'a>,
    folder: &'a Path,
    store: &'a mut Store,
    /// What the bundle holds so far.
    files: StageFiles,
    started: SystemTime,
}

impl Run<'_> {
    fn stage(
        &mut self,
        name: &str,
        key: Digest,
        progress: &mut dyn FnMut(Event<'_>),
        work: impl FnOnce(&mut Self, &mut dyn FnMut(Event<'_>)) -> Result<StageFiles, Error>,
    ) -> Result<(), Error> {
        let start = Instant::now();
        progress(Event::Begin(name));
        let reused = if self.options.force { None } else { self.store.reuse(name, key)? };
        let taken_over = reused.is_some();
        let files = match reused {
            Some(files) => files,
            None => {
                let files = work(self, progress)?;
                self.store.finish(name, key, files.clone())?;
                files
            }
        };
        self.files.extend(files);
        progress(Event::End(name, start.elapsed(), taken_over));
        Ok(())
    }

    fn export(&mut self, stage: &ExportStage, progress: &mut dyn FnMut(Event<'_>)) -> Result<StageFiles, Error> {
        let (name, folder) = (stage.name(), self.folder.join("onnx"));
        let (source, audit) = (&self.prepared.source, &self.prepared.audit);
        let total = stage.lowered.table.files.read_bytes(&source.checkpoint)?;
        let version = self.options.version;
        let exported =
            watched(|report| export(source, &stage.target, stage.mode, &folder, Some(&stage.file), version, report), &mut |bytes| {
                progress(Event::Bytes(&name, bytes, total))
            })?;
        let mut files = StageFiles::new();
        let graph = FileRecord { bytes: exported.graph_bytes, sha256: sha256_file(&exported.graph)? };
        files.insert(format!("onnx/{}", stage.file), graph);
        for weights in &exported.weights {
            let name = weights.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let sha256 = weights.sha256.or_else(|| audit.files.iter().find(|file| file.name == name).map(|file| file.sha256));
            let sha256 = sha256.map_or_else(|| sha256_file(&weights.path), Ok)?;
            files.insert(format!("onnx/{name}"), FileRecord { bytes: weights.bytes, sha256 });
        }
        // Weights that an earlier stage wrote belong to this graph too.
        for name in &stage.weights {
            let path = format!("onnx/{name}");
            if let Some(record) = self.files.get(&path) {
                files.insert(path, *record);
            }
        }
        Ok(files)
    }

    /// Plans, side by side: what neither the folder being filled, nor the last bundle, nor the cache has.
    fn engines(&mut self, stages: &[&PlanStage], progress: &mut dyn FnMut(Event<'_>)) -> Result<(), Error> {
        let mut names = Vec::new();
        let mut jobs = Vec::new();
        let mut to_build = Vec::new();
        for &stage in stages {
            let name = stage.name(&self.prepared.stages.exports);
            let reused = if self.options.force { None } else { self.store.reuse(&name, stage.key)? };
            match reused {
                Some(files) => {
                    progress(Event::Begin(&name));
                    progress(Event::End(&name, Duration::ZERO, true));
                    self.files.extend(files);
                }
                None => {
                    jobs.push(job(self.prepared, stage, self.folder));
                    names.push(name);
                    to_build.push(stage);
                }
            }
        }
        let farm = Farm { fresh: self.options.force, ..self.options.farm.clone() };
        let mut began: Vec<Option<Instant>> = vec![None; jobs.len()];
        // A plan that is there is remembered at once: a run that is stopped need not build it again.
        let mut failed = None;
        let built = farm.run(&jobs, &mut |event| {
            let stage = event.job().map(|index| names[index].as_str());
            match event {
                FarmEvent::Started(index, _) => {
                    began[index] = Some(Instant::now());
                    progress(Event::Begin(&names[index]));
                }
                FarmEvent::Done(index, report) => {
                    let files = plan_files(to_build[index], report).inspect(|files| self.files.extend(files.clone()));
                    let kept = files.and_then(|files| self.store.finish(&names[index], to_build[index].key, files));
                    failed = failed.take().or(kept.err());
                    let time = began[index].map_or(Duration::ZERO, |start| start.elapsed());
                    progress(Event::End(&names[index], time, report.cached));
                }
                _ => {}
            }
            progress(Event::Farm(stage, event));
        });
        if let Some(error) = failed {
            return Err(error);
        }
        built.map(|_| ()).map_err(|(_, error)| error.into())
    }

    fn verify(&mut self, progress: &mut dyn FnMut(Event<'_>)) -> Result<Verdict, Error> {
        let prepared = self.prepared;
        let mut graphs = Vec::new();
        for stage in &prepared.stages.exports {
            let name = format!("onnx/{}", stage.file);
            graphs.push(GraphCandidate::file(&self.folder.join(&name), &name)?);
        }
        for graph in &prepared.graphs {
            let path = graph.path.as_deref().unwrap_or(Path::new(&graph.name));
            graphs.push(GraphCandidate::file(path, &graph.name)?);
        }
        let candidate = |stage: &PlanStage| PlanCandidate::file(&self.folder.join(&stage.path), &stage.path);
        let plans = prepared.stages.plans.iter().map(candidate).collect::<Result<Vec<_>, _>>()?;
        // The oracle that proved the bundle goes into it: the user's golden, else what the reference gave.
        let oracle = self.folder.join(GOLDEN_NAME);
        if let Some(golden) = &prepared.golden {
            copy_file(golden, &oracle)?;
        }
        let verdict = assess(
            &Assessment {
                source: &prepared.source,
                source_name: &prepared.pipeline.source.checkpoint.0,
                revision: prepared.revision().as_deref(),
                graphs: &graphs,
                plans: &plans,
                runtimes: &prepared.pipeline.verify.runtimes,
                golden: prepared.golden.as_ref().map(|_| oracle.as_path()),
                prompts: &prepared.prompts,
                prompts_origin: &prepared.prompts_origin,
                keep: prepared.golden.is_none().then_some(oracle.as_path()),
                keep_noise: Some(&self.folder.join(NOISE_NAME)),
                limits: Limits::default(),
                open: self.options.open,
                lookup: self.options.lookup,
                bisect: true,
            },
            &prepared.audit,
            &mut |inner| progress(Event::Check(inner)),
        )?;
        self.record(GOLDEN_NAME)?;
        self.record(NOISE_NAME)?;
        let json = verdict.to_json().map_err(|error| Error::Manifest { path: "verdict.json".into(), problem: error.to_string() })?;
        write_atomic(&self.folder.join("verdict.json"), json.as_bytes())?;
        write_atomic(&self.folder.join("report.html"), verdict.to_html().as_bytes())?;
        self.record("verdict.json")?;
        self.record("report.html")?;
        Ok(verdict)
    }

    /// Adds a file that is in the folder to the bundle.
    fn record(&mut self, name: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        let record = FileRecord { bytes: plansmith_files::metadata(&path)?.len(), sha256: sha256_file(&path)? };
        self.files.insert(name.to_owned(), record);
        Ok(())
    }

    fn bundle(&mut self, verdict: Verdict) -> Result<Built, Error> {
        let variants = variants(&self.prepared.stages.exports);
        for (name, bytes) in sidecars(&self.prepared.source, &self.prepared.companions, &variants)?.files {
            write_atomic(&self.folder.join(&name), &bytes)?;
            self.record(&name)?;
        }
        if self.prepared.pipeline.layouts.contains(&Layout::Triton) {
            let name = &self.prepared.pipeline.name.0;
            let written = repository::write(self.folder, name, &self.prepared.stages.exports, &self.files)?;
            self.files.extend(written);
            let written = repository::write_plans(self.folder, name, &self.prepared.stages, &self.files)?;
            self.files.extend(written);
        }
        self.store.clear(&self.files)?;
        let mut manifest = self.manifest(&verdict);
        check_clients(self.folder, &manifest.graphs.iter().map(|graph| graph.path.clone()).collect::<Vec<_>>())?;
        // The manifest says of which bytes the bundle was made: they have to be the ones that were read.
        unchanged(&self.prepared.source, &self.prepared.audit)?;
        let bytes = manifest.seal()?;
        write_atomic(&self.folder.join(MANIFEST_NAME), &bytes)?;
        provenance::write(self.folder, &manifest, Digest::of(&bytes), self.started)?;
        self.store.close()?;
        let agreed = verdict.exit_code(self.options.require_executed) == 0;
        let target = if agreed { &self.prepared.output.bundle } else { &self.prepared.output.failed }.clone();
        create_dir_all(target.parent().unwrap_or(Path::new(".")))?;
        exchange_folder(self.folder, &target, &MARKS)?;
        let finished = Finished { folder: target, manifest_sha256: Digest::of(&bytes), manifest, verdict: Some(verdict) };
        Ok(if agreed { Built::Done(finished) } else { Built::Failed(finished) })
    }

    fn manifest(&self, verdict: &Verdict) -> Manifest {
        let prepared = self.prepared;
        let pipeline = &prepared.pipeline;
        let source = SourceRecord {
            checkpoint: pipeline.source.checkpoint.0.clone(),
            revision: prepared.revision(),
            model_type: prepared.source.loaded.model_type.to_owned(),
            sha256: source_digests(&prepared.source, &prepared.audit),
            allow_unknown_config: pipeline.source.allow_unknown_config.clone(),
            max_length: pipeline.source.max_length,
            switch_length: prepared.source.loaded.spec.switch_length(),
        };
        let not_executed = verdict.candidates.iter().filter(|candidate| candidate.verdict == Outcome::NotExecuted);
        let short = VerdictRecord {
            verdict: verdict.verdict.name().to_owned(),
            oracle: verdict.oracle,
            executed: verdict.executed,
            not_executed: not_executed.map(|candidate| candidate.facts.path.clone()).collect(),
        };
        let (name, version, recipe) = (pipeline.name.0.clone(), self.options.version.to_owned(), prepared.stages.recipe);
        let mut manifest = Manifest::new(name, version, recipe, source, short);
        let exports = &prepared.stages.exports;
        manifest.graphs = exports.iter().map(graph_record).collect();
        let plan = |stage: &PlanStage| PlanRecord {
            path: stage.path.clone(),
            from: format!("onnx/{}", exports[stage.from].file),
            architecture: stage.target(),
            profile: stage.parts.name(),
            recipe: stage.key,
        };
        manifest.plans = prepared.stages.plans.iter().map(plan).collect();
        manifest.files = self.files.clone();
        manifest
    }
}

/// What clients are told of: every graph whose cache grows, those that are there for TensorRT last.
fn variants(exports: &[ExportStage]) -> Vec<Variant> {
    let (for_tensorrt, for_all): (Vec<&ExportStage>, _) =
        exports.iter().filter(|stage| stage.lowered.slots.is_none()).partition(|stage| stage.target.dialect == Dialect::Tensorrt);
    for_all
        .into_iter()
        .chain(for_tensorrt)
        .map(|stage| Variant {
            file: format!("onnx/{}", stage.file),
            cache: stage.lowered.compute,
            shares_buffer: stage.lowered.shares_buffer,
            data: stage.weights.clone(),
        })
        .collect()
}

/// What a plan stage asks for, with its graph and its plan in `folder`.
fn job(prepared: &Prepared, stage: &PlanStage, folder: &Path) -> Job {
    let sizes = prepared.audit.files.iter();
    let source = plansmith_engine::SourceRecord {
        revision: prepared.pipeline.source.revision.as_ref().map(|revision| revision.0.clone()),
        files: sizes.map(|file| plansmith_engine::FileRecord { name: file.name.clone(), bytes: file.size, sha256: file.sha256 }).collect(),
    };
    let request = BuildRequest {
        onnx: folder.join("onnx").join(&prepared.stages.exports[stage.from].file),
        output: folder.join(&stage.path),
        profiles: stage.parts.profiles.clone(),
        profiles_as: stage.profiles_as,
        architectures: stage.parts.architectures.clone(),
        source: Some(source),
        weights: stage.weights,
        compatible: stage.compatible.clone(),
        timing_cache: stage.timing_cache.clone(),
        prove_reproducible: false,
    };
    Job { paths: stage.paths.clone(), request }
}

/// A plan and its manifest, by path within the bundle.
fn plan_files(stage: &PlanStage, report: &BuildReport) -> Result<StageFiles, Error> {
    let beside = &report.manifest_path;
    let manifest = FileRecord { bytes: plansmith_files::metadata(beside)?.len(), sha256: sha256_file(beside)? };
    let plan = FileRecord { bytes: report.manifest.plan.bytes, sha256: report.manifest.plan.sha256 };
    let manifest_name = Path::new(&stage.path).with_extension("json").to_string_lossy().into_owned();
    Ok(StageFiles::from([(stage.path.clone(), plan), (manifest_name, manifest)]))
}

fn graph_record(stage: &ExportStage) -> GraphRecord {
    GraphRecord {
        id: stage.id.clone(),
        path: format!("onnx/{}", stage.file),
        weights: stage.weights.iter().map(|name| format!("onnx/{name}")).collect(),
        target: stage.target.clone(),
        storage: stage.lowered.table.storage,
        compute: stage.lowered.compute,
        opset: stage.lowered.opset,
        recipe: stage.key,
    }
}
