//! What to build and what came of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Architecture, Compatible, Error, Flavor, PlanManifest, Profile, SourceRecord, Weights};

/// A plan to build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildRequest {
    /// The graph; its external data lies beside it.
    pub onnx: PathBuf,
    /// Where the plan goes; its manifest goes beside it, see [`crate::manifest_path`]. Folders are created.
    pub output: PathBuf,
    /// For which batch sizes and lengths. One profile a plan: a second one can duplicate the weights.
    pub profile: Profile,
    /// What the plan is for; several cost next to nothing.
    pub architectures: Vec<Architecture>,
    /// The checkpoint behind the graph, for the manifest.
    pub source: Option<SourceRecord>,
    /// Where its weights go.
    pub weights: Weights,
    /// What else it is to be used with; for the enterprise flavour.
    pub compatible: Vec<Compatible>,
    /// Whether to build it twice, in two processes, and compare the bytes; not done where addresses stay randomised.
    pub prove_reproducible: bool,
}

impl BuildRequest {
    /// A request without source that builds once.
    pub fn new(onnx: impl AsRef<Path>, output: impl AsRef<Path>, profile: Profile, architectures: Vec<Architecture>) -> Self {
        Self {
            onnx: onnx.as_ref().to_owned(),
            output: output.as_ref().to_owned(),
            profile,
            architectures,
            source: None,
            weights: Weights::Embedded,
            compatible: Vec::new(),
            prove_reproducible: false,
        }
    }

    /// Refuses no architecture, or one named twice.
    ///
    /// The enterprise flavour builds for the GPU that it runs on, so that there none may be named.
    pub(crate) fn check_architectures(&self, flavor: Flavor) -> Result<(), Error> {
        match (flavor, self.architectures.is_empty()) {
            (Flavor::Enterprise, true) => return Ok(()),
            (Flavor::Enterprise, false) => return Err(Error::ArchitecturesOfEnterprise),
            (Flavor::Rtx, _) => {}
        }
        let mut sorted = self.architectures.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.is_empty() || sorted.len() != self.architectures.len() {
            let names: Vec<_> = self.architectures.iter().map(|architecture| architecture.name()).collect();
            return Err(Error::Architectures(names.join(",")));
        }
        Ok(())
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
}
