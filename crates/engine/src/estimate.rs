//! Sizes before anything is built. Measured with TensorRT-RTX 1.7 on decoders of 0.1 MB to 540 MB of weights; a worker's real peak is
//! remembered beside the cache and replaces the estimate.

use serde::Serialize;

use crate::{Architecture, BuildRequest, DeviceMemory, Error, ModelFacts, ProfileRecord, Unsupported, Weights, inspect_model, unsupported};

/// What a worker has before it builds: TensorRT's libraries and tables.
const WORKER: u64 = 210 << 20;
/// What it has at its peak for each byte of weights: the composite form takes 4, the primitive one 6.
const WORKER_FOR_WEIGHTS: u64 = 6;
/// Kernels of a plan of one profile, for the first layer and for each.
const PLAN: u64 = 1_600_000;
const PLAN_FOR_LAYER: u64 = 450_000;

/// Largest size of a worker, in bytes.
pub(crate) fn worker_peak(weight_bytes: u64, profiles: usize) -> u64 {
    let more = weight_bytes.saturating_mul(profiles.saturating_sub(1) as u64);
    WORKER.saturating_add(weight_bytes.saturating_mul(WORKER_FOR_WEIGHTS)).saturating_add(more)
}

/// What a build would come to; nothing is built and no worker started.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    /// What each architecture does not take of the graph; empty where it takes all.
    pub support: Vec<Support>,
    /// Bytes of the graph's weights.
    pub weight_bytes: u64,
    /// Each profile in all three corners.
    pub profiles: Vec<ProfileForecast>,
    /// Bytes of the plan; as much again for each further profile where TensorRT keeps the weights twice.
    pub plan_bytes: u64,
    /// Largest size of the worker that builds it, in bytes.
    pub worker_bytes: u64,
}

/// Whether an architecture takes a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Support {
    /// The architecture.
    pub architecture: Architecture,
    /// Why not.
    pub missing: Vec<Unsupported>,
}

/// A profile, expanded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProfileForecast {
    /// Every input in all three corners.
    #[serde(flatten)]
    pub record: ProfileRecord,
    /// Bytes on the device in the largest.
    pub memory: DeviceMemory,
    /// Length at which rotations change, where steps lie on both sides of it.
    pub switches_at: Option<u64>,
}

impl Forecast {
    /// Of one plan. Reads the graph and no weights.
    ///
    /// # Errors
    /// What [`crate::Prepared::of`] refuses, but for element types, which are listed.
    pub fn of(request: &BuildRequest) -> Result<Self, Error> {
        request.check()?;
        let model = inspect_model(&request.onnx)?;
        let profiles = request.profiles.iter().map(|profile| {
            let (record, memory) = crate::prepared::shaped(profile, &model, request.flavor())?;
            Ok(ProfileForecast { record, memory, switches_at: model.lengths.switches_within(profile) })
        });
        let profiles = profiles.collect::<Result<Vec<_>, Error>>().map_err(|error| request.explained(error))?;
        let support =
            request.architectures.iter().map(|&architecture| Support { architecture, missing: unsupported(architecture, &model.types) });
        Ok(Self {
            support: support.collect(),
            weight_bytes: model.weight_bytes,
            plan_bytes: plan_bytes(&model, request.weights),
            worker_bytes: worker_peak(model.weight_bytes, profiles.len()),
            profiles,
        })
    }

    /// Fails as the build would where an architecture does not take the graph.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn require_support(&self) -> Result<(), Error> {
        let missing: Vec<_> = self.support.iter().flat_map(|support| support.missing.clone()).collect();
        if missing.is_empty() { Ok(()) } else { Err(Error::Unsupported(missing)) }
    }
}

fn plan_bytes(model: &ModelFacts, weights: Weights) -> u64 {
    let layers = model.signature.inputs.iter().filter(|input| input.name.ends_with(".key")).count() as u64;
    let weights = if weights == Weights::Stripped { 0 } else { model.weight_bytes };
    weights + PLAN + PLAN_FOR_LAYER * layers
}
