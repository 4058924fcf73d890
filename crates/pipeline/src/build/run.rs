//! The stages themselves, up to the verdict.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use plansmith_engine::{BuildReport, Farm, FarmEvent};
use plansmith_files::{Digest, copy_file, sha256_file, write_atomic};
use plansmith_lowering::export;
use plansmith_verify::{Limits, Verdict};

use super::prepared::{Prepared, job};
use super::{BuildOptions, Event};
use crate::Error;
use crate::assess::{Assessment, GOLDEN_NAME, assess};
use crate::candidates::{GraphCandidate, PlanCandidate};
use crate::manifest::FileRecord;
use crate::noise::NOISE_NAME;
use crate::stages::{ExportStage, PlanStage};
use crate::store::{StageFiles, Store};
use crate::watch::watched;

pub(super) struct Run<'a> {
    pub(super) prepared: &'a Prepared,
    pub(super) options: &'a BuildOptions<'a>,
    pub(super) folder: &'a Path,
    pub(super) store: &'a mut Store,
    /// What the bundle holds so far.
    pub(super) files: StageFiles,
    pub(super) started: SystemTime,
}

impl Run<'_> {
    pub(super) fn stage(
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

    pub(super) fn export(&mut self, stage: &ExportStage, progress: &mut dyn FnMut(Event<'_>)) -> Result<StageFiles, Error> {
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
    pub(super) fn engines(&mut self, stages: &[&PlanStage], progress: &mut dyn FnMut(Event<'_>)) -> Result<(), Error> {
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
                    jobs.push(job(self.prepared, stage, self.folder)?);
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

    pub(super) fn verify(&mut self, progress: &mut dyn FnMut(Event<'_>)) -> Result<Verdict, Error> {
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
        let plans = prepared.stages.plans.iter().map(|stage| (self.folder.join(&stage.path), stage.path.clone()));
        let plans = PlanCandidate::files(plans.collect())?;
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
    pub(super) fn record(&mut self, name: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        let record = FileRecord { bytes: plansmith_files::metadata(&path)?.len(), sha256: sha256_file(&path)? };
        self.files.insert(name.to_owned(), record);
        Ok(())
    }
}

/// A plan and its manifest, by path within the bundle.
fn plan_files(stage: &PlanStage, report: &BuildReport) -> Result<StageFiles, Error> {
    let beside = &report.manifest_path;
    let manifest = FileRecord { bytes: plansmith_files::metadata(beside)?.len(), sha256: sha256_file(beside)? };
    let plan = FileRecord { bytes: report.manifest.plan.bytes, sha256: report.manifest.plan.sha256 };
    let manifest_name = Path::new(&stage.path).with_extension("json").to_string_lossy().into_owned();
    Ok(StageFiles::from([(stage.path.clone(), plan), (manifest_name, manifest)]))
}
