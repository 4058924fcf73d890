//! What a path names: a bundle, a graph, a plan or a checkpoint; and a session on it.

use std::path::{Path, PathBuf};

use plansmith_lowering::{Float, Source, Target, lower};
use plansmith_runtime::{GraphSource, Loaded, OpenOptions, RuntimeKind, load};

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
}

/// Lengths in tokens, prompt and answer together; `None` where the graph does not say.
pub(crate) struct Lengths {
    /// What the model was made for, or what `--max-length` said.
    pub(crate) positions: Option<usize>,
    /// Beyond it every rotation changes, and with it every key that was cached before.
    pub(crate) switch: Option<usize>,
}

impl Model {
    /// Finds out what `path` is.
    pub(crate) fn find(path: &Path) -> Result<Self, Failure> {
        let parents = |path: &Path| path.ancestors().skip(1).take(2).map(Path::to_path_buf).collect::<Vec<_>>();
        if plansmith_files::is_dir(path) {
            let folders = vec![path.to_owned()];
            return match first_graph(path)? {
                Some(graph) => Ok(Self { graph: Graph::File(graph), folders }),
                None => {
                    let source = Source::open(path, &plansmith_families::Options::default())?;
                    Ok(Self { graph: Graph::Memory(Box::new(source)), folders })
                }
            };
        }
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("onnx") => Ok(Self { graph: Graph::File(path.to_owned()), folders: parents(&plansmith_files::canonicalize(path)?) }),
            Some("plan" | "engine") => Err(Failure::new(format!("{} is a plan, which needs a GPU to run", path.display()))
                .hint("run the ONNX graph that it was built from: it computes the same")),
            _ if !path.exists() => Err(Failure::new(format!("{} does not exist", path.display()))),
            _ => Err(Failure::new(format!("{} is neither a folder nor an .onnx file", path.display()))),
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
        })
    }

    /// Opens it on `runtime`.
    pub(crate) fn load(&self, runtime: RuntimeKind, options: &OpenOptions) -> Result<Loaded, Failure> {
        match &self.graph {
            Graph::File(path) => Ok(load(runtime, GraphSource::File(path), options)?),
            Graph::Memory(source) => {
                let target = Target { compute: Some(Float::Fp32), ..Target::default() };
                let lowered = lower(source, &target)?;
                let model = lowered.graph.finish(&Default::default()).map_err(plansmith_lowering::Error::from)?;
                let folder = source.checkpoint.dir();
                Ok(load(runtime, GraphSource::Memory { model: &model, folder }, options)?)
            }
        }
    }
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
    let is_graph = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "onnx");
    Ok(plansmith_files::list(&graphs)?.into_iter().find(is_graph))
}
