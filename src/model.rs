//! What a path names: a bundle, a graph, plans or a checkpoint; and a session on it.

use std::path::{Path, PathBuf};

use plansmith_engine::{Flavor, PlanManifest, WorkerPaths, check_plans};
use plansmith_lowering::{Float, Source, Target, lower};
use plansmith_runtime::{Error, GraphSource, Loaded, OpenedPlans, RuntimeKind, load, open_plans};

use crate::args::Tools;
use crate::commands::engine::lookup;
use crate::commands::verify::open_options;
use crate::exit::Failure;

/// A model that can be executed.
pub(crate) struct Model {
    /// Where it lies.
    pub(crate) graph: Graph,
    /// Where a tokenizer may be, the likeliest first.
    pub(crate) folders: Vec<PathBuf>,
}

/// The graph of a [`Model`].
pub(crate) enum Graph {
    /// On disk.
    File(PathBuf),
    /// A checkpoint's, made in memory.
    Memory(Box<Source>),
    /// Plans of one model and architecture: the first that fits a step does it.
    Plans(Vec<PathBuf>),
}

/// Lengths in tokens, prompt and answer together; `None` where the graph does not say.
pub(crate) struct Lengths {
    /// What the model was made for, or what `--max-length` said.
    pub(crate) positions: Option<usize>,
    /// Beyond it every rotation changes, and with it every key that was cached before.
    pub(crate) switch: Option<usize>,
}

/// Folders above a plan in a bundle, `engines/<flavor>-<version>/<arch>/<profile>.plan`, up to that with the tokenizer.
const ABOVE_PLANS: usize = 4;

impl Model {
    /// Finds out what `path` is.
    pub(crate) fn find(path: &Path) -> Result<Self, Failure> {
        if !path.exists() {
            return Err(Failure::new(format!("{} does not exist", path.display())));
        }
        let above = |count: usize| -> Result<Vec<PathBuf>, Failure> {
            Ok(plansmith_files::canonicalize(path)?.ancestors().skip(1).take(count).map(Path::to_path_buf).collect())
        };
        if plansmith_files::is_dir(path) {
            let folders = vec![path.to_owned()];
            if let Some(graph) = first_graph(path)? {
                return Ok(Self { graph: Graph::File(graph), folders });
            }
            let plans: Vec<PathBuf> = plansmith_files::list(path)?.into_iter().filter(|path| has_extension(path, "plan")).collect();
            if !plans.is_empty() && !plansmith_files::is_file(&path.join("config.json")) {
                let folders = [folders, above(ABOVE_PLANS)?].concat();
                return Ok(Self { graph: Graph::Plans(plans), folders });
            }
            let source = Source::open(path, &plansmith_families::Options::default())?;
            return Ok(Self { graph: Graph::Memory(Box::new(source)), folders });
        }
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("onnx") => Ok(Self { graph: Graph::File(path.to_owned()), folders: above(2)? }),
            Some("plan") => Ok(Self { graph: Graph::Plans(vec![path.to_owned()]), folders: above(ABOVE_PLANS)? }),
            _ => Err(Failure::new(format!("{} is neither a folder nor an .onnx or .plan file", path.display()))),
        }
    }

    /// The lengths that it was made for.
    pub(crate) fn lengths(&self) -> Result<Lengths, Failure> {
        Ok(match &self.graph {
            Graph::File(path) => {
                let properties = plansmith_onnx::load(path)?.metadata_props;
                let length = |key: &str| {
                    let found = properties.iter().find(|entry| entry.key() == format!("plansmith.{key}"));
                    found.and_then(|entry| entry.value().parse().ok())
                };
                Lengths { positions: length("max_length").or_else(|| length("max_positions")), switch: length("switch_length") }
            }
            Graph::Memory(source) => {
                let spec = &source.loaded.spec;
                Lengths { positions: Some(spec.max_positions as usize), switch: spec.switch_length().map(|length| length as usize) }
            }
            // Their profiles bound every step.
            Graph::Plans(_) => Lengths { positions: None, switch: None },
        })
    }

    /// Opens it on `runtime`, or where none was named on the first that can.
    pub(crate) fn load(&self, runtime: Option<RuntimeKind>, tools: &Tools) -> Result<Loaded, Failure> {
        let options = open_options(tools);
        match &self.graph {
            Graph::File(path) => Ok(first_able(runtime, |kind| load(kind, GraphSource::File(path), &options))?),
            Graph::Memory(source) => {
                let target = Target { compute: Some(Float::Fp32), ..Target::default() };
                let lowered = lower(source, &target)?;
                let model = lowered.graph.finish(&Default::default()).map_err(plansmith_lowering::Error::from)?;
                let folder = source.checkpoint.dir();
                Ok(first_able(runtime, |kind| load(kind, GraphSource::Memory { model: &model, folder }, &options))?)
            }
            Graph::Plans(plans) => match runtime {
                None | Some(RuntimeKind::TensorRt) => run_plans(plans, tools),
                Some(other) => Err(Failure::new(format!("{other} runs graphs; {} is a plan", name(plans))).hint("leave --runtime out")),
            },
        }
    }
}

/// rten is part of this program; where it lacks an operator, ONNX Runtime may have it.
fn first_able(runtime: Option<RuntimeKind>, open: impl Fn(RuntimeKind) -> Result<Loaded, Error>) -> Result<Loaded, Error> {
    match (open(runtime.unwrap_or(RuntimeKind::Rten)), runtime) {
        (Err(lacking @ Error::Unsupported { .. }), None) => open(RuntimeKind::Ort).map_err(|error| match error {
            Error::LibraryMissing { .. } => lacking,
            other => other,
        }),
        (result, _) => result,
    }
}

fn run_plans(plans: &[PathBuf], tools: &Tools) -> Result<Loaded, Failure> {
    let checks = check_plans(plans)?;
    let first = checks.first().map(|check| &check.manifest);
    let flavor = first.map_or(Flavor::Rtx, |manifest| manifest.flavor);
    let targets = first.map(PlanManifest::targets);
    let paths = WorkerPaths::find(flavor, &lookup(tools))?;
    match open_plans(&paths, checks, &open_options(tools).device)? {
        OpenedPlans::Session(loaded) => Ok(loaded),
        OpenedPlans::NotExecuted(reason) => {
            let text = format!("{} was checked and cannot be executed here: {}", name(plans), reason.why);
            Err(Failure::new(text).hint(format!(
                "run it on a host with a GPU of {}, or run the ONNX graph that it was built from: it computes the same",
                targets.unwrap_or_default().join(" or ")
            )))
        }
    }
}

fn name(plans: &[PathBuf]) -> String {
    plans.iter().map(|plan| plan.display().to_string()).collect::<Vec<_>>().join(" and ")
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension == wanted)
}

/// A bundle's graph: `onnx/model.onnx`, else the first under `onnx/`; only where there is a manifest.
fn first_graph(folder: &Path) -> Result<Option<PathBuf>, Failure> {
    let graphs = folder.join("onnx");
    if !plansmith_files::is_file(&folder.join("manifest.json")) || !plansmith_files::is_dir(&graphs) {
        return Ok(None);
    }
    let plain = graphs.join("model.onnx");
    if plansmith_files::is_file(&plain) {
        return Ok(Some(plain));
    }
    Ok(plansmith_files::list(&graphs)?.into_iter().find(|path| has_extension(path, "onnx")))
}
