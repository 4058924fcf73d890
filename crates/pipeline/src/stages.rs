//! The stages of a pipeline: what each would write, and the key that determines its bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plansmith_checkpoint::{Audit, commit_of_folder, edited_since_fetched};
use plansmith_engine::{
    ArchitecturesAs, Compatible, Flavor, Gpu, LibraryRecord, Lookup, ModelLengths, PlanParts, Profile, ProfilesAs, TimingCache, Weights,
    Worker, WorkerPaths, spread,
};
use plansmith_files::{Digest, Hasher, sha256_file};
use plansmith_lowering::{Dialect, Lowered, Source, Target, WeightFiles, WeightsMode, graph_name, lower};
use plansmith_onnx::{Links, encode};
use plansmith_runtime::{OpenOptions, RTEN_VERSION, RuntimeKind, find_ort};
use plansmith_verify::Prompts;

use crate::clients::CLIENTS_VERSION;
use crate::file::{EngineSpec, Layout, PipelineFile, first_duplicate, relative_to};
use crate::{Error, GraphCandidate, repository};

/// The stage that checks what the others made.
pub const VERIFY: &str = "verify";
/// The last stage.
pub(crate) const BUNDLE: &str = "bundle";

/// A graph to be written.
#[derive(Debug)]
pub(crate) struct ExportStage {
    pub(crate) id: String,
    pub(crate) target: Target,
    pub(crate) lowered: Lowered,
    /// Bare file name under `onnx/`.
    pub(crate) file: String,
    /// Bare names of its weight files.
    pub(crate) weights: Vec<String>,
    /// Whether an earlier stage writes the weight files.
    pub(crate) mode: WeightsMode,
    /// Size of these.
    pub(crate) bytes: u64,
    pub(crate) key: Digest,
}

/// A plan to be built.
#[derive(Debug)]
pub(crate) struct PlanStage {
    /// Index of the export that it is built from.
    pub(crate) from: usize,
    pub(crate) parts: PlanParts,
    pub(crate) profiles_as: ProfilesAs,
    /// Where the plan's weights go.
    pub(crate) weights: Weights,
    /// What else it is to be used with.
    pub(crate) compatible: Vec<Compatible>,
    /// Where what its builder measures is kept.
    pub(crate) timing_cache: TimingCache,
    /// Path within the bundle.
    pub(crate) path: String,
    pub(crate) flavor: Flavor,
    /// What builds it, or why nothing here does: stages are listed and exports made all the same.
    pub(crate) tools: Result<WorkerPaths, Arc<plansmith_engine::Error>>,
    /// The GPU that it is for, where no architecture is named; `None` where this machine has none.
    pub(crate) gpu: Option<Gpu>,
    pub(crate) key: Digest,
}

/// All stages of a pipeline over one source.
#[derive(Debug)]
pub(crate) struct Stages {
    pub(crate) exports: Vec<ExportStage>,
    pub(crate) plans: Vec<PlanStage>,
    /// Of everything.
    pub(crate) recipe: Digest,
}

impl ExportStage {
    pub(crate) fn name(&self) -> String {
        format!("export:{}", self.id)
    }
}

impl PlanStage {
    pub(crate) fn name(&self, exports: &[ExportStage]) -> String {
        format!("engine:{}:{}:{}", exports[self.from].id, self.parts.target(), self.parts.name())
    }

    /// `sm86`, `sm86+sm89`, or what the GPU is that it is for.
    pub(crate) fn target(&self) -> String {
        target(&self.parts, self.gpu.as_ref())
    }

    /// Whether only this machine's GPU could build it, and there is none.
    pub(crate) fn lacks_gpu(&self) -> bool {
        self.tools.is_ok() && !self.flavor.builds_anywhere() && self.gpu.is_none()
    }
}

/// What besides the pipeline file determines the stages.
pub(crate) struct Inputs<'a> {
    pub(crate) path: &'a Path,
    pub(crate) pipeline: &'a PipelineFile,
    pub(crate) source: &'a Source,
    pub(crate) audit: &'a Audit,
    pub(crate) prompts: &'a Prompts,
    pub(crate) golden: Option<&'a Path>,
    /// Graphs by others.
    pub(crate) graphs: &'a [GraphCandidate],
    pub(crate) open: &'a OpenOptions,
    pub(crate) lookup: &'a Lookup,
    pub(crate) companions: &'a [PathBuf],
    pub(crate) version: &'a str,
}

impl Stages {
    pub(crate) fn of(inputs: &Inputs<'_>) -> Result<Self, Error> {
        let mut exports = exports(inputs)?;
        let mut plans: Vec<PlanStage> = Vec::new();
        for engine in &inputs.pipeline.engines {
            let more = plan_stages(inputs, engine, &mut exports, &plans)?;
            plans.extend(more);
        }
        if let Some(twice) = first_duplicate(plans.iter().map(|plan| plan.path.as_str())) {
            let problem = format!("ask for `{twice}` twice");
            return Err(Error::Invalid { path: inputs.path.to_owned(), key: "engines".into(), problem, hint: None });
        }
        if inputs.pipeline.layouts.contains(&Layout::Triton) {
            repository::check(&inputs.pipeline.name.0, &exports)?;
        }
        let verify = verify_key(inputs, &exports, &plans)?;
        let mut hasher = Hasher::default();
        hasher.field(inputs.pipeline.name.0.as_bytes());
        hasher.field(verify.to_string().as_bytes());
        hasher.field(CLIENTS_VERSION);
        // Another plansmith may judge otherwise; graphs and plans that it would make alike are taken over all the same.
        hasher.field(inputs.version.as_bytes());
        // The manifest says where the source came from.
        let source = &inputs.pipeline.source;
        hasher.field(format!("{source:?} {:?}", commit_of_folder(inputs.source.checkpoint.dir())).as_bytes());
        for layout in &inputs.pipeline.layouts {
            hasher.field(format!("{layout:?}").as_bytes());
        }
        for path in inputs.companions {
            hasher.field(path.file_name().unwrap_or_default().as_encoded_bytes());
            hasher.field(sha256_file(path)?.to_string().as_bytes());
        }
        Ok(Self { exports, plans, recipe: hasher.finish() })
    }

    /// The names of all stages, in the order in which they run.
    pub(crate) fn names(&self) -> Vec<String> {
        let exports = self.exports.iter().map(ExportStage::name);
        let plans = self.plans.iter().map(|plan| plan.name(&self.exports));
        exports.chain(plans).chain([VERIFY.into(), BUNDLE.into()]).collect()
    }
}

fn exports(inputs: &Inputs<'_>) -> Result<Vec<ExportStage>, Error> {
    let mut stages = Vec::new();
    for spec in &inputs.pipeline.export {
        add_export(inputs, &mut stages, spec.id.0.clone(), spec.target(&inputs.pipeline.layouts))?;
    }
    Ok(stages)
}

fn add_export(inputs: &Inputs<'_>, stages: &mut Vec<ExportStage>, id: String, target: Target) -> Result<usize, Error> {
    let lowered = lower(inputs.source, &target)?;
    let weights: Vec<String> = match &lowered.table.files {
        WeightFiles::Converted { name, .. } => vec![name.clone()],
        WeightFiles::Source(files) => files.iter().map(|file| file.name.clone()).collect(),
    };
    let standard = graph_name(&lowered);
    let taken = |name: &str| stages.iter().any(|stage: &ExportStage| stage.file == name);
    let file = if taken(&standard) { format!("model_{id}.onnx") } else { standard };
    let shared = stages.iter().any(|stage| stage.weights == weights);
    let mode = if shared { WeightsMode::Shared } else { WeightsMode::Auto };
    let key = export_key(inputs, &lowered, &target)?;
    let bytes = crate::space::weights(&lowered.table.files, &inputs.source.checkpoint);
    stages.push(ExportStage { id, target, lowered, file, weights, mode, bytes, key });
    Ok(stages.len() - 1)
}

/// The graph and the source's weights: what determines the bytes, but for plansmith's own version, so that another one that makes the same
/// takes over what is there, with the version that made it.
fn export_key(inputs: &Inputs<'_>, lowered: &Lowered, target: &Target) -> Result<Digest, Error> {
    let model = lowered.graph.finish(&lowered.metadata(inputs.source, target, "")).map_err(plansmith_lowering::Error::from)?;
    let mut hasher = Hasher::default();
    hasher.field(b"export");
    hasher.field(&encode(&model));
    for file in &inputs.audit.files {
        hasher.field(file.name.as_bytes());
        hasher.field(file.sha256.to_string().as_bytes());
    }
    Ok(hasher.finish())
}

fn plan_stages(
    inputs: &Inputs<'_>,
    engine: &EngineSpec,
    exports: &mut Vec<ExportStage>,
    earlier: &[PlanStage],
) -> Result<Vec<PlanStage>, Error> {
    let missing =
        || Error::Invalid { path: inputs.path.to_owned(), key: "engines.from".into(), problem: "names no export".into(), hint: None };
    let named = exports.iter().position(|export| export.id == engine.from).ok_or_else(missing)?;
    let lengths = lengths(inputs.source);
    let profiles = engine.profiles.iter().map(|(name, profile)| profile.profile(name, &lengths)).collect::<Result<Vec<_>, _>>()?;
    profiles.iter().try_for_each(|profile| check_length(inputs.path, profile, &lengths))?;
    let architectures_as = if engine.architectures.is_empty() { ArchitecturesAs::OnePlan } else { engine.architectures_as };
    let plans = spread(&engine.architectures, architectures_as, &profiles, engine.profiles_as)?;
    // Profiles of one plan may be longer by a step.
    plans.iter().flat_map(|parts| &parts.profiles).try_for_each(|profile| check_length(inputs.path, profile, &lengths))?;
    let from = tensorrt_variant(inputs, exports, named)?;
    let both = Flavor::ALL.iter().all(|flavor| inputs.pipeline.engines.iter().any(|engine| engine.flavor == *flavor));
    let tools = Tools::find(engine.flavor, &lookup_for(engine.flavor, both, inputs.lookup));
    let gpu = tools.as_ref().ok().and_then(|tools| tools.gpu.clone());
    let version = tools.as_ref().map_or("unknown".to_owned(), |tools| tools.library.version.to_string());
    let folder = format!("engines/{}-{version}", engine.flavor);
    let tools = tools.map_err(Arc::new);
    let stage = |parts: PlanParts| {
        let mut hasher = Hasher::default();
        hasher.field(b"engine");
        hasher.field(exports[from].key.to_string().as_bytes());
        hasher.field(format!("{parts:?}").as_bytes());
        hasher.field(engine.weights.name().as_bytes());
        // Another build of the worker gives another plan, measured: its allocations come before TensorRT's.
        if let Ok(Tools { library, worker, .. }) = &tools {
            for sha256 in [library.core.sha256, library.parser.sha256, *worker] {
                hasher.field(sha256.to_string().as_bytes());
            }
        }
        // What is built on a GPU is built for it; timings, which differ from run to run, are told in the plan's manifest.
        if !engine.flavor.builds_anywhere() {
            let gpu = gpu.as_ref().map(|gpu| (&gpu.name, &gpu.compute));
            hasher.field(format!("{gpu:?} {:?}", engine.compatible).as_bytes());
        }
        // Plans of one folder serve one cache, so they are of one graph; the first graph has the plain name.
        let plain = format!("{folder}/{}", target(&parts, gpu.as_ref()));
        let taken = earlier.iter().any(|plan| plan.from != from && folder_of(&plan.path) == plain);
        let place = if taken { format!("{plain}-{}", engine.from) } else { plain };
        let path = format!("{place}/{}.plan", parts.name());
        PlanStage {
            from,
            parts,
            profiles_as: engine.profiles_as,
            weights: engine.weights,
            compatible: engine.compatible.clone(),
            timing_cache: engine.timing_cache(inputs.path),
            path,
            flavor: engine.flavor,
            tools: tools.as_ref().map(|tools| tools.paths.clone()).map_err(Arc::clone),
            gpu: gpu.clone(),
            key: hasher.finish(),
        }
    };
    Ok(plans.into_iter().map(stage).collect())
}

/// What builds the plans of a flavour here.
struct Tools {
    paths: WorkerPaths,
    library: LibraryRecord,
    worker: Digest,
    /// Where the flavour builds for it.
    gpu: Option<Gpu>,
}

impl Tools {
    fn find(flavor: Flavor, lookup: &Lookup) -> Result<Self, plansmith_engine::Error> {
        let paths = WorkerPaths::find(flavor, lookup)?;
        let worker = Worker::spawn(&paths)?;
        let gpu = worker.greeting().gpu.clone().filter(|_| !flavor.builds_anywhere());
        Ok(Self { library: worker.greeting().library.clone(), worker: sha256_file(&paths.worker)?, gpu, paths })
    }
}

fn target(parts: &PlanParts, gpu: Option<&Gpu>) -> String {
    match gpu {
        Some(gpu) if parts.architectures.is_empty() => gpu.architecture(),
        _ => parts.target(),
    }
}

/// Flags name one worker and one folder: where plans are of both flavours, those of rtx, and the others are found by their variables.
pub(crate) fn lookup_for(flavor: Flavor, both: bool, lookup: &Lookup) -> Lookup {
    if both && flavor == Flavor::Enterprise { Lookup::default() } else { lookup.clone() }
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// As the metadata of every graph of `source` will say.
fn lengths(source: &Source) -> ModelLengths {
    ModelLengths {
        max_length: source.loaded.max_length,
        max_positions: Some(source.loaded.spec.max_positions),
        switch_length: source.loaded.spec.switch_length(),
    }
}

/// Refuses a profile for its length before anything is exported; the engine does so once the graph is there.
fn check_length(path: &Path, profile: &Profile, lengths: &ModelLengths) -> Result<(), Error> {
    lengths.check(profile).map_err(|error| Error::Invalid {
        path: path.to_owned(),
        key: "engines.profiles".into(),
        problem: error.to_string(),
        hint: Some("make `sequence` or `past` of the profile shorter, or `source.max_length` longer".to_owned()),
    })
}

/// The export that TensorRT can parse: the one named, or a variant of it in the primitive form beside it.
fn tensorrt_variant(inputs: &Inputs<'_>, exports: &mut Vec<ExportStage>, named: usize) -> Result<usize, Error> {
    let export = &exports[named];
    let target = Target { dialect: Dialect::Tensorrt, ..export.target.clone() };
    let (form, _) = target.form(&inputs.source.loaded.spec, export.lowered.compute)?;
    if form == export.lowered.form {
        return Ok(named);
    }
    let id = format!("{}-tensorrt", export.id);
    match exports.iter().position(|export| export.id == id) {
        Some(index) => Ok(index),
        None => add_export(inputs, exports, id, target),
    }
}

/// What determines the verdict: every artifact, the oracles, the prompts and the runtimes.
fn verify_key(inputs: &Inputs<'_>, exports: &[ExportStage], plans: &[PlanStage]) -> Result<Digest, Error> {
    let mut hasher = Hasher::default();
    hasher.field(b"verify");
    for export in exports {
        hasher.field(export.file.as_bytes());
        hasher.field(export.key.to_string().as_bytes());
    }
    for plan in plans {
        hasher.field(plan.path.as_bytes());
        hasher.field(plan.key.to_string().as_bytes());
    }
    for graph in inputs.graphs {
        hasher.field(graph.name.as_bytes());
        hasher.field(graph.sha256.to_string().as_bytes());
        for file in plansmith_onnx::data_files(&graph.model, &graph.folder, Links::Followed)?.values() {
            hasher.field(sha256_file(&file.path)?.to_string().as_bytes());
        }
    }
    hasher.field(inputs.prompts.hash().to_string().as_bytes());
    if let Some(golden) = inputs.golden {
        hasher.field(sha256_file(golden)?.to_string().as_bytes());
    }
    for runtime in &inputs.pipeline.verify.runtimes {
        let version = match runtime {
            RuntimeKind::Rten => RTEN_VERSION.to_owned(),
            RuntimeKind::Ort => find_ort(inputs.open.ort_library.as_deref())?.version.to_string(),
            RuntimeKind::TensorRt => String::new(),
        };
        hasher.field(format!("{runtime} {version}").as_bytes());
    }
    Ok(hasher.finish())
}

/// What a pipeline pins of its source, against what it is.
pub(crate) fn check_pins(path: &Path, pipeline: &PipelineFile, source: &Source, audit: &Audit) -> Result<(), Error> {
    let folder = source.checkpoint.dir();
    for (name, wanted) in &pipeline.source.sha256 {
        let file = folder.join(name);
        let found = match audit.files.iter().find(|file| file.name == *name) {
            Some(file) => file.sha256,
            None => sha256_file(&file)?,
        };
        if found != wanted.0 {
            return Err(Error::Pin { path: file, problem: format!("has the SHA-256 {found}; {} pins {}", path.display(), wanted.0) });
        }
    }
    let Some(revision) = &pipeline.source.revision else { return Ok(()) };
    if let Some(edited) = edited_since_fetched(folder) {
        let problem = format!("is not what was fetched, and {} pins revision {}", path.display(), revision.0);
        return Err(Error::Pin { path: edited, problem });
    }
    if let Some(found) = commit_of_folder(folder).filter(|found| *found != revision.0) {
        return Err(Error::Pin {
            path: folder.to_owned(),
            problem: format!("is revision {found}; {} pins {}", path.display(), revision.0),
        });
    }
    Ok(())
}

/// Files that stand beside the weights and that clients of a bundle read.
const COMPANIONS: [&str; 10] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
];

/// Those that are in `folder`, a checkpoint's.
pub fn companions(folder: &Path) -> Vec<PathBuf> {
    COMPANIONS.iter().map(|name| folder.join(name)).filter(|path| plansmith_files::is_file(path)).collect()
}

/// SHA-256 of config.json and of every weight file, by name.
pub(crate) fn source_digests(source: &Source, audit: &Audit) -> BTreeMap<String, Digest> {
    let mut digests: BTreeMap<String, Digest> = audit.files.iter().map(|file| (file.name.clone(), file.sha256)).collect();
    digests.insert("config.json".into(), source.config_digest);
    digests
}

/// Where the pipeline file says that something is.
pub(crate) fn resolve(path: &Path, text: &str) -> PathBuf {
    relative_to(path, text)
}
