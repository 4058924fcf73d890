//! A request, checked against its graph before anything is started.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use plansmith_files::Identity;

use crate::protocol::BuildOrder;
use crate::{
    BuildRequest, DeviceMemory, Error, Flavor, ModelFacts, OnnxRecord, Profile, ProfileRecord, Weights, input_shapes, inspect_model,
    support,
};

/// Graphs that were looked at and hashed; each is, once.
#[derive(Debug, Default)]
pub struct Models {
    hashed: HashMap<PathBuf, Hashed>,
}

/// A graph, and its files as they were before anything was read of them.
#[derive(Debug)]
struct Hashed {
    facts: ModelFacts,
    record: OnnxRecord,
    files: Vec<(PathBuf, Identity)>,
}

impl Models {
    fn get(&mut self, path: &Path) -> Result<&Hashed, Error> {
        if !self.hashed.contains_key(path) {
            let graph = identified(plansmith_files::canonicalize(path)?)?;
            let facts = inspect_model(path)?;
            let data = facts.data.iter().map(|name| identified(facts.path.with_file_name(name)));
            let files = std::iter::once(Ok(graph)).chain(data).collect::<Result<_, _>>()?;
            let record = facts.record()?;
            self.hashed.insert(path.to_owned(), Hashed { facts, record, files });
        }
        Ok(&self.hashed[path])
    }
}

fn identified(path: PathBuf) -> Result<(PathBuf, Identity), Error> {
    let identity = Identity::at(&path)?;
    identity.settle();
    Ok((path, identity))
}

/// What the worker will be asked for, and what goes into the manifest of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    pub(crate) model: ModelFacts,
    pub(crate) onnx: OnnxRecord,
    pub(crate) profiles: Vec<ProfileRecord>,
    pub(crate) order: BuildOrder,
    files: Vec<(PathBuf, Identity)>,
}

impl Prepared {
    /// Checks architectures, profiles, lengths, memory and element types, and hashes the graph and its data.
    ///
    /// # Errors
    /// [`Error::Architectures`], [`Error::Profile`], [`Error::Model`], [`Error::Onnx`], [`Error::Shapes`], [`Error::Unsupported`],
    /// [`Error::File`].
    pub fn of(request: &BuildRequest, models: &mut Models) -> Result<Self, Error> {
        request.check()?;
        let Hashed { facts: model, record: onnx, files } = models.get(&request.onnx)?;
        support::check(&request.architectures, &model.types)?;
        let shaped = |profile| shaped(profile, model, request.flavor()).map(|(record, _)| record);
        let profiles = request.profiles.iter().map(shaped).collect::<Result<Vec<_>, _>>().map_err(|error| request.explained(error))?;
        let Some(name) = model.path.file_name().and_then(|name| name.to_str()) else {
            return Err(Error::Model { path: model.path.clone(), reason: "its name is not UTF-8".to_owned() });
        };
        let inputs = profiles.iter().map(|record| record.inputs.clone()).collect();
        let external = match request.weights {
            Weights::Stripped => model.external(),
            Weights::Embedded | Weights::Streaming => Vec::new(),
        };
        let order = BuildOrder {
            onnx: name.to_owned(),
            architectures: request.architectures.clone(),
            profiles: inputs,
            weights: request.weights,
            compatible: request.compatible.clone(),
            external,
            timings: None,
        };
        Ok(Self { model: model.clone(), onnx: onnx.clone(), profiles, order, files: files.clone() })
    }

    /// Refuses a graph whose files are no longer those that were hashed: what a worker read of them is unknown.
    ///
    /// # Errors
    /// [`Error::Changed`], [`Error::File`].
    pub(crate) fn unchanged(&self) -> Result<(), Error> {
        for (path, identity) in &self.files {
            if Identity::at(path)? != *identity {
                return Err(Error::Changed { path: path.clone() });
            }
        }
        Ok(())
    }

    /// What the worker will be asked for.
    pub fn order(&self) -> &BuildOrder {
        &self.order
    }

    /// Bytes of the graph's weights.
    pub fn weight_bytes(&self) -> u64 {
        self.model.weight_bytes
    }
}

/// A profile expanded to every input, and the memory that it implies.
pub(crate) fn shaped(profile: &Profile, model: &ModelFacts, flavor: Flavor) -> Result<(ProfileRecord, DeviceMemory), Error> {
    model.lengths.check(profile)?;
    let inputs = input_shapes(profile, &model.signature.inputs, flavor)?;
    let memory = DeviceMemory::at_most(profile, &model.signature, &inputs, model.weight_bytes, model.mask_bytes);
    memory.check(profile, flavor)?;
    Ok((ProfileRecord { profile: profile.clone(), inputs }, memory))
}
