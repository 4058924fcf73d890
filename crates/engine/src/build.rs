//! What to build and what came of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::architecture::check_all_different;
use crate::{
    Architecture, Compatible, Error, Flavor, PlanManifest, Profile, ProfilesAs, SourceRecord, TimingCache, Weights, check_profile_names,
};

/// A plan to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildRequest {
    /// The graph; its external data lies beside it.
    pub onnx: PathBuf,
    /// Where the plan goes; its manifest goes beside it, see [`crate::manifest_path`]. Folders are created.
    pub output: PathBuf,
    /// For which batch sizes and lengths, in order of preference; names differ. A second one can duplicate the weights.
    pub profiles: Vec<Profile>,
    /// How the profiles that the user named became those of this plan.
    pub profiles_as: ProfilesAs,
    /// What the plan is for; several cost next to nothing.
    pub architectures: Vec<Architecture>,
    /// The checkpoint behind the graph, for the manifest.
    pub source: Option<SourceRecord>,
    /// Where its weights go.
    pub weights: Weights,
    /// What else it is to be used with; for the enterprise flavour.
    pub compatible: Vec<Compatible>,
    /// Where what the builder measures is kept; for the enterprise flavour.
    pub timing_cache: TimingCache,
    /// Whether to build it twice, in two processes, and compare the bytes; not done where addresses stay randomised.
    pub prove_reproducible: bool,
}

impl BuildRequest {
    /// A request without source that builds once.
    pub fn new(onnx: impl AsRef<Path>, output: impl AsRef<Path>, profile: Profile, architectures: Vec<Architecture>) -> Self {
        Self {
            onnx: onnx.as_ref().to_owned(),
            output: output.as_ref().to_owned(),
            profiles: vec![profile],
            profiles_as: ProfilesAs::PlanEach,
            architectures,
            source: None,
            weights: Weights::Embedded,
            compatible: Vec::new(),
            timing_cache: TimingCache::Usual,
            prove_reproducible: false,
        }
    }

    /// The flavour that it is for: where no architecture is named, the one that builds for the GPU that it runs on.
    pub fn flavor(&self) -> Flavor {
        if self.architectures.is_empty() { Flavor::Enterprise } else { Flavor::Rtx }
    }

    /// Says of a profile that is too long by the step that [`ProfilesAs::OnePlan`] opened it by where that comes from.
    pub(crate) fn explained(&self, error: Error) -> Error {
        match error {
            Error::Shapes { profile, reason } if self.profiles_as == ProfilesAs::OnePlan => {
                let step =
                    "one-plan opens an axis by one step where another profile of the plan leaves it open: take plan-each, or one step less";
                Error::Shapes { profile, reason: format!("{reason} ({step})") }
            }
            other => other,
        }
    }

    /// Refuses no profile, architectures or profiles that are named twice, and a place that holds a folder.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_profile_names(&self.profiles)?;
        crate::pair::check(&self.output)?;
        // The enterprise flavour builds for the GPU that it runs on: none is named.
        if self.architectures.is_empty() { Ok(()) } else { check_all_different(&self.architectures) }
    }
}

/// A plan that was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildReport {
    /// The plan.
    pub plan: PathBuf,
    /// Its manifest's file.
    pub manifest_path: PathBuf,
    /// Its manifest.
    pub manifest: PlanManifest,
    /// Time that TensorRT's parser took.
    pub parse: Duration,
    /// Time that its builder took.
    pub build: Duration,
    /// Largest resident size of the worker, in bytes.
    pub peak_bytes: u64,
    /// Whether it was taken from the cache; times and size are then those of the build that put it there.
    pub cached: bool,
}
