//! What is known before a stage runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use plansmith_checkpoint::{Audit, commit_of_folder};
use plansmith_engine::{BuildRequest, Job, WorkerPaths};
use plansmith_lowering::{Kv, Source};
use plansmith_verify::Prompts;

use super::{BuildOptions, Event, SOURCE};
use crate::assess::{audit_source, builtin_within};
use crate::candidates::GraphCandidate;
use crate::file::{PipelineFile, Prompts as PromptsSpec, SourceSpec};
use crate::output::Output;
use crate::stages::{Inputs, PlanStage, Stages, check_pins, companions, resolve};
use crate::watch::watched;
use crate::{Error, Text, read_pipeline};

/// Everything that is known before a stage runs.
pub(super) struct Prepared {
    pub(super) pipeline: PipelineFile,
    pub(super) source: Source,
    pub(super) audit: Audit,
    pub(super) stages: Stages,
    pub(super) prompts: Prompts,
    pub(super) prompts_origin: String,
    pub(super) golden: Option<PathBuf>,
    /// Graphs by others, as the pipeline names them.
    pub(super) graphs: Vec<GraphCandidate>,
    pub(super) companions: Vec<PathBuf>,
    pub(super) output: Output,
}

impl Prepared {
    /// The commit that the pipeline pins, else the one that the checkpoint's folder says.
    pub(super) fn revision(&self) -> Option<String> {
        let pinned = self.pipeline.source.revision.as_ref().map(|revision| revision.0.clone());
        pinned.or_else(|| commit_of_folder(self.source.checkpoint.dir()))
    }
}

pub(super) fn prepare(path: &Path, options: &BuildOptions<'_>, progress: &mut dyn FnMut(Event<'_>)) -> Result<Prepared, Error> {
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
    if plansmith_files::metadata(&folder).is_err_and(|error| error.is_not_found()) {
        let key = "source.checkpoint".into();
        let demo = if folder.parent().is_some_and(|parent| parent.ends_with("target/demo")) { "`cargo xtask demo` makes it; " } else { "" };
        let hint = format!("{demo}`--set source.checkpoint=DIR` names another folder");
        return Err(Error::Invalid {
            path: path.to_owned(),
            key,
            problem: format!("is {}, which is not there", folder.display()),
            hint: Some(hint),
        });
    }
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

/// What a plan stage asks for, with its graph and its plan in `folder`.
///
/// # Errors
/// [`Error::NoTools`].
pub(super) fn job(prepared: &Prepared, stage: &PlanStage, folder: &Path) -> Result<Job, Error> {
    let paths = tools(prepared, stage)?.clone();
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
    Ok(Job { paths, request })
}

/// What builds the plan of a stage here.
///
/// # Errors
/// [`Error::NoTools`].
pub(super) fn tools<'a>(prepared: &Prepared, stage: &'a PlanStage) -> Result<&'a WorkerPaths, Error> {
    let lacking = |why: &Arc<_>| Error::NoTools { stage: stage.name(&prepared.stages.exports), why: Arc::clone(why) };
    stage.tools.as_ref().map_err(lacking)
}
