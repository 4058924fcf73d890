//! A request, checked against its graph before anything is started.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::model::file_name;
use crate::protocol::BuildOrder;
use crate::{
    BuildRequest, DeviceMemory, Error, Flavor, ModelFacts, OnnxRecord, Profile, ProfileRecord, Weights, input_shapes, inspect_model,
    support,
};

/// Graphs that were looked at and hashed; each is, once.
#[derive(Debug, Default)]
pub struct Models {
    hashed: HashMap<PathBuf, (ModelFacts, OnnxRecord)>,
}

impl Models {
    fn get(&mut self, path: &Path) -> Result<&(ModelFacts, OnnxRecord), Error> {
        if !self.hashed.contains_key(path) {
            let facts = inspect_model(path)?;
            let record = facts.record()?;
            self.hashed.insert(path.to_owned(), (facts, record));
        }
        Ok(&self.hashed[path])
    }
}

/// What the worker will be asked for, and what goes into the manifest of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    pub(crate) model: ModelFacts,
    pub(crate) onnx: OnnxRecord,
    pub(crate) profiles: Vec<ProfileRecord>,
    pub(crate) order: BuildOrder,
}

impl Prepared {
    /// Checks architectures, profiles, lengths, memory and element types, and hashes the graph and its data.
    ///
    /// # Errors
    /// [`Error::Architectures`], [`Error::Profile`], [`Error::Model`], [`Error::Onnx`], [`Error::Shapes`], [`Error::Unsupported`],
    /// [`Error::File`].
    pub fn of(request: &BuildRequest, models: &mut Models) -> Result<Self, Error> {
        request.check()?;
        let (model, onnx) = models.get(&request.onnx)?;
        support::check(&request.architectures, &model.types)?;
        let profiles =
            request.profiles.iter().map(|profile| Ok(shaped(profile, model, request.flavor())?.0)).collect::<Result<Vec<_>, Error>>()?;
        let name = file_name(&model.path)?;
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
        Ok(Self { model: model.clone(), onnx: onnx.clone(), profiles, order })
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
