//! A graph as every runtime gets it: decoded, its interface understood, its external data there.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use plansmith_onnx::proto::ValueInfoProto;
use plansmith_onnx::{DataFile, Links, ModelProto};

use crate::interface::{Interface, Reading, listing};
use crate::open::OpenOptions;
use crate::{Error, genai};

/// Where a graph comes from.
#[derive(Debug, Clone, Copy)]
pub enum GraphSource<'a> {
    /// A file; external data lies beside it, behind no link that leads elsewhere.
    File(&'a Path),
    /// A graph that is nowhere on disk.
    Memory {
        /// The graph.
        model: &'a ModelProto,
        /// The folder that holds its external data. Links in it are followed wherever they lead.
        folder: &'a Path,
    },
}

/// A graph that has been checked.
pub(crate) struct Graph<'a> {
    /// What errors call it.
    pub(crate) name: String,
    pub(crate) model: Cow<'a, ModelProto>,
    /// The file, where there is one.
    pub(crate) path: Option<&'a Path>,
    /// Data files by location.
    pub(crate) files: BTreeMap<String, DataFile>,
    pub(crate) interface: Interface,
}

impl<'a> Graph<'a> {
    /// Reads the graph's own bytes and the sizes of its data files; no tensor data is read.
    pub(crate) fn read(source: GraphSource<'a>, options: &OpenOptions) -> Result<Self, Error> {
        let name = match source {
            GraphSource::File(path) => path.display().to_string(),
            GraphSource::Memory { .. } => "the graph in memory".to_owned(),
        };
        let refuse = |error: plansmith_onnx::Error| match error {
            plansmith_onnx::Error::File(error) => Error::File(error),
            plansmith_onnx::Error::Tensor { tensor, problem } => Error::ExternalData { graph: name.clone(), tensor, reason: problem },
            plansmith_onnx::Error::InFile { problem, .. } => Error::Decode { graph: name.clone(), reason: problem.to_string() },
            other => Error::Invalid { graph: name.clone(), reason: other.to_string() },
        };
        let (model, path, folder, links) = match source {
            GraphSource::File(path) => {
                let model = plansmith_onnx::load(path).map_err(refuse)?;
                (Cow::Owned(model), Some(path), path.parent().unwrap_or(Path::new("")), Links::BesideTheModel(path))
            }
            GraphSource::Memory { model, folder } => (Cow::Borrowed(model), None, folder, Links::Followed),
        };
        plansmith_onnx::validate(&model).map_err(|error| Error::Invalid { graph: name.clone(), reason: error.to_string() })?;
        let unserved = |reason: String, listing: String| Error::Interface { graph: name.clone(), reason, listing };
        let signature = plansmith_onnx::signature(&model).map_err(|error| unserved(error.to_string(), String::new()))?;
        let reading = Reading {
            map: options.names.clone(),
            model: Some(&model),
            shape: options.shape.clone().or_else(|| genai::shape_beside(path?)),
            unpadded: options.unpadded,
        };
        let listed = listing(&signature);
        let interface = Interface::read(signature, &reading).map_err(|reason| unserved(reason, listed))?;
        let files = plansmith_onnx::data_files(&model, folder, links).map_err(refuse)?;
        Ok(Self { name, model, path, files, interface })
    }

    /// Makes `values` outputs too. Outputs need no type: runtimes infer it. With any, the graph is no longer that of its file.
    pub(crate) fn tap(&mut self, values: &[String]) {
        if values.is_empty() {
            return;
        }
        self.path = None;
        let Some(graph) = &mut self.model.to_mut().graph else { return };
        for value in values {
            if !graph.output.iter().any(|output| output.name() == value) {
                graph.output.push(ValueInfoProto { name: Some(value.clone()), ..ValueInfoProto::default() });
            }
        }
    }
}
