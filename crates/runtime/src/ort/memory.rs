//! A graph that is not on disk, with weights that are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plansmith_onnx::proto::StringStringEntryProto;

use crate::graph::Graph;
use crate::tensors::for_each_tensor;

/// A graph encoded, and the folder in which ONNX Runtime is to look for its data.
pub(super) struct InMemory {
    pub(super) bytes: Vec<u8>,
    /// `None` where there is no external data.
    pub(super) folder: Option<PathBuf>,
}

/// Encodes `graph` so that its data files are named as they really are.
///
/// ONNX Runtime refuses links that lead out of the folder, and a hub's cache holds nothing else: all of a model's files are links into one
/// folder of blobs. So the graph names the blobs, and that folder is the one to look in.
pub(super) fn encode(graph: &Graph<'_>) -> Result<InMemory, String> {
    let mut names = BTreeMap::new();
    let mut folder: Option<PathBuf> = None;
    for (location, file) in &graph.files {
        let path = plansmith_files::canonicalize(&file.path).map_err(|error| error.to_string())?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
            return Err(format!("{} has no name that a graph can hold", path.display()));
        };
        match &folder {
            Some(folder) if folder != parent => {
                let (one, other) = (folder.display(), parent.display());
                return Err(format!(
                    "its data files are links into two folders, {one} and {other}; it looks in one: copy them beside each other"
                ));
            }
            _ => folder = Some(parent.to_path_buf()),
        }
        names.insert(location.as_str(), name.to_owned());
    }
    if names.iter().all(|(location, name)| location == name) {
        return Ok(InMemory { bytes: plansmith_onnx::encode(&graph.model), folder });
    }
    let mut model = graph.model.clone().into_owned();
    let renamed = for_each_tensor(&mut model, &mut |tensor| {
        let location = tensor.external_data.iter_mut().filter(|entry| entry.key() == "location");
        location.for_each(|entry| rename(entry, &names));
        Ok::<(), std::convert::Infallible>(())
    });
    match renamed {
        Ok(()) => Ok(InMemory { bytes: plansmith_onnx::encode(&model), folder }),
    }
}

fn rename(entry: &mut StringStringEntryProto, names: &BTreeMap<&str, String>) {
    if let Some(name) = names.get(entry.value()) {
        entry.value = Some(name.clone());
    }
}
