//! What is checked: graphs and plans.

use std::path::{Path, PathBuf};

use plansmith_engine::{PlanCheck, check_plans};
use plansmith_files::{Digest, sha256_file};
use plansmith_onnx::{ExternalData, Links, ModelProto, dtype, encode};
use plansmith_runtime::GraphSource;
use plansmith_tensor::DType;

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
    /// A graph on disk. It is refused here, before anything runs, where no runtime is to see it.
    ///
    /// # Errors
    /// It cannot be read, is no ONNX graph, is refused by [`plansmith_onnx::validate`] or [`plansmith_onnx::signature`], or its data files by
    /// [`plansmith_onnx::data_files`].
    pub fn file(path: &Path, name: &str) -> Result<Self, Error> {
        let model = plansmith_onnx::load(path)?;
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        let valid = plansmith_onnx::validate(&model).and_then(|()| plansmith_onnx::signature(&model).map(drop));
        let whole = valid.and_then(|()| plansmith_onnx::data_files(&model, &folder, Links::BesideTheModel(path)).map(drop));
        whole.map_err(|problem| plansmith_onnx::Error::InFile { path: path.to_owned(), problem: Box::new(problem) })?;
        Ok(Self { name: name.to_owned(), model, path: Some(path.to_owned()), folder, sha256: sha256_file(path)? })
    }

    /// A graph that is nowhere on disk, whose weights lie in `folder`.
    pub fn memory(model: ModelProto, folder: &Path, name: &str) -> Self {
        let sha256 = Digest::of(&encode(&model));
        Self { name: name.to_owned(), model, path: None, folder: folder.to_owned(), sha256 }
    }

    pub(crate) fn source(&self) -> GraphSource<'_> {
        match &self.path {
            Some(path) => GraphSource::File(path),
            None => GraphSource::Memory { model: &self.model, folder: &self.folder },
        }
    }

    /// Whether plansmith wrote it: then every initializer that bears a tensor's name must hold that tensor.
    pub(crate) fn is_ours(&self) -> bool {
        self.model.metadata_props.iter().any(|entry| entry.key() == "plansmith.version")
    }

    /// Slots a row of its static cache, where plansmith wrote it with one.
    pub fn static_slots(&self) -> Option<u64> {
        let property = |key: &str| self.model.metadata_props.iter().find(|entry| entry.key() == key).map(|entry| entry.value());
        property("plansmith.kv").filter(|kv| *kv == "static")?;
        property("plansmith.max_length")?.parse().ok()
    }

    /// What it says it computes in: the dtype of its cache, fp32 where it has none.
    pub(crate) fn compute(&self) -> DType {
        let inputs = plansmith_onnx::signature(&self.model).map(|signature| signature.inputs).unwrap_or_default();
        let cache = inputs.iter().find(|input| input.name.starts_with("past_key_values."));
        cache.map_or(DType::F32, |input| input.dtype)
    }

    /// Whether attention is written as products around a softmax, so that scores are stored in between.
    pub(crate) fn stores_scores(&self) -> bool {
        self.model.graph.iter().flat_map(|graph| &graph.node).any(|node| node.op_type() == "Softmax")
    }

    /// The dtype that most bytes of its stored tensors have.
    pub(crate) fn storage(&self) -> DType {
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

/// A plan to be checked, which is the one that the manifest beside it describes.
#[derive(Debug)]
pub struct PlanCandidate {
    /// What the verdict calls it.
    pub name: String,
    /// The plan.
    pub path: PathBuf,
    /// What it was held to; every byte of it was read for that, once.
    pub check: PlanCheck,
}

impl PlanCandidate {
    /// Plans on disk and what the verdict calls them.
    ///
    /// # Errors
    /// Those of [`check_plans`].
    pub fn files(plans: Vec<(PathBuf, String)>) -> Result<Vec<Self>, Error> {
        let checks = check_plans(plans.iter().map(|(path, _)| path))?;
        Ok(plans.into_iter().zip(checks).map(|((path, name), check)| Self { name, path, check }).collect())
    }
}
