//! The messages.

use std::path::PathBuf;

use plansmith_files::Digest;
use serde::{Deserialize, Serialize};

use crate::session::NotExecuted;
use crate::{
    Architecture, BuilderSettings, CachePair, Compatible, Flavor, Gpu, LayerSummary, LibraryRecord, NodeError, PlanManifest,
    RandomisedAddresses, RefitWeight, TensorRecord, TensorShapes, Weights,
};

/// From client to worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Request {
    /// First of all: load the libraries and say who you are. A descriptor of the libraries' folder follows.
    Hello {
        /// [`super::VERSION`] of the client.
        protocol: u32,
        /// The flavour that the client wants.
        flavor: Flavor,
    },
    /// Build a plan; once a process, since what was built before changes the bytes. Descriptors of the graph's folder and of that for the
    /// plan follow, and where timings are kept the memory file for them: a path would change, by its length, where the worker allocates what comes after it, and with that the bytes too.
    Build(BuildOrder),
    /// Open plans of one model for execution; a descriptor of a memory file follows.
    Open(OpenOrder),
    /// Run one step.
    Step(StepOrder),
    /// Empty the cache.
    Reset {
        /// Rows from now on.
        batch: u64,
    },
    /// Copy the cache into the memory file.
    Cache,
}

/// From worker to client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Reply {
    /// To [`Request::Hello`].
    Hello(Greeting),
    /// While something else is under way.
    Event(Event),
    /// To [`Request::Build`].
    Built(BuiltPlan),
    /// To [`Request::Open`]: the plans can be executed.
    Opened(Ready),
    /// To [`Request::Open`]: they cannot be executed here.
    NotExecuted(NotExecuted),
    /// To [`Request::Step`] and [`Request::Cache`].
    Tensors(Vec<SharedTensor>),
    /// To [`Request::Reset`].
    Done,
    /// To anything: it failed.
    Failed(Failure),
}

/// Who the worker is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Greeting {
    /// [`super::VERSION`] of the worker.
    pub protocol: u32,
    /// What it was compiled for.
    pub flavor: Flavor,
    /// Version of plansmith that it was compiled from.
    pub plansmith: String,
    /// The libraries that it loaded.
    pub library: LibraryRecord,
    /// Whether its addresses are randomised.
    pub randomised_addresses: RandomisedAddresses,
    /// The first GPU, if there is one.
    pub gpu: Option<Gpu>,
}

/// How grave a line of TensorRT's log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// An internal error.
    Internal,
    /// An error.
    Error,
    /// A warning.
    Warning,
    /// Information.
    Info,
    /// Details.
    Verbose,
}

/// What happens during a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A line of TensorRT's log.
    Log {
        /// How grave.
        severity: Severity,
        /// The line.
        text: String,
    },
    /// A phase began: `parse`, `build`, `write`, or one of TensorRT's own below `build`.
    PhaseStarted {
        /// Its name.
        phase: String,
        /// The phase that it belongs to.
        parent: Option<String>,
        /// How many steps it has.
        steps: u32,
    },
    /// Steps of a phase are done.
    PhaseAt {
        /// Its name.
        phase: String,
        /// How many steps are done.
        done: u32,
    },
    /// A phase ended.
    PhaseEnded {
        /// Its name.
        phase: String,
    },
}

/// What to build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildOrder {
    /// Bare name of the graph.
    pub onnx: String,
    /// What the plan is for.
    pub architectures: Vec<Architecture>,
    /// Every input's shapes, for each profile.
    pub profiles: Vec<Vec<TensorShapes>>,
    /// Where the weights go.
    pub weights: Weights,
    /// What else the plan is to be used with.
    pub compatible: Vec<Compatible>,
    /// Initialisers of the graph that lie in data files: what a stripped plan may lack.
    pub external: Vec<String>,
    /// A memory file with a timing cache, or with none yet, follows as a third descriptor; the new cache replaces what is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timings: Option<AlienTimings>,
}

/// What to do with a timing cache that is another GPU's or library's, or damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AlienTimings {
    /// Fail.
    Refuse,
    /// Begin with none, and say so.
    Replace,
}

/// The timing cache that a build left in the memory file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuiltTimings {
    /// Why the cache that was there was not used.
    pub refused: Option<String>,
    /// Its size.
    pub bytes: u64,
    /// Its digest.
    pub sha256: Digest,
}

/// A plan that was built: synced, and locked until the worker ends, under [`crate::partial_name`] in the folder for it; to be renamed by the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuiltPlan {
    /// Its size.
    pub bytes: u64,
    /// Its digest.
    pub sha256: Digest,
    /// Settings, read back.
    pub builder: BuilderSettings,
    /// Inputs as the parser made them.
    pub inputs: Vec<TensorRecord>,
    /// Outputs as the parser made them.
    pub outputs: Vec<TensorRecord>,
    /// Cache inputs with their outputs.
    pub cache: Vec<CachePair>,
    /// What the plan lacks, where it is stripped.
    pub refit: Vec<RefitWeight>,
    /// The timing cache, where one was asked for.
    pub timings: Option<BuiltTimings>,
    /// What the network is made of.
    pub layers: LayerSummary,
    /// Warnings of parser and builder.
    pub warnings: Vec<String>,
    /// Milliseconds of parsing.
    pub parse_ms: u64,
    /// Milliseconds of building.
    pub build_ms: u64,
    /// Largest resident size of the worker, in bytes.
    pub peak_bytes: u64,
}

/// Plans of one model to execute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenOrder {
    /// For each step the first whose profile fits is used.
    pub plans: Vec<PlanOrder>,
    /// What the client checked already.
    pub checked: Vec<String>,
    /// Which GPU, counted from 0.
    pub gpu: u32,
    /// Folder for kernels that TensorRT-RTX compiles; absolute. `None`: they are not kept.
    pub kernels: Option<PathBuf>,
}

/// Plans that can be executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// Where they run.
    pub gpu: Gpu,
    /// Where the time went.
    pub times: LoadTimes,
    /// Bytes on the device for tokens, cache and logits; TensorRT's own come on top.
    pub device_bytes: u64,
}

/// Microseconds of opening plans in the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadTimes {
    /// Mapping the plans.
    pub read_us: u64,
    /// Deserialising them; TensorRT moves the weights to the device within it.
    pub deserialise_us: u64,
    /// Making contexts; TensorRT-RTX compiles kernels within it, unless they were kept.
    pub context_us: u64,
    /// Allocating buffers on the device and pinned memory.
    pub buffers_us: u64,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanOrder {
    /// The plan; absolute.
    pub path: PathBuf,
    /// Its manifest.
    pub manifest: PlanManifest,
    /// The data files of a stripped plan; absolute.
    pub data: Vec<PathBuf>,
}

/// One step: `input_ids`, `attention_mask`, `position_ids`, and for a static cache `cache_position`, lie in the memory file one after the
/// other, int64. For a static cache the mask is `[batch, max_length]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepOrder {
    /// Rows.
    pub batch: u64,
    /// New tokens a row.
    pub sequence: u64,
    /// Tokens a row before the step.
    pub past: u64,
}

/// A tensor in the memory file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedTensor {
    /// Name, dtype and shape.
    pub tensor: TensorRecord,
    /// Its first byte.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
}

/// Why the worker could not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Failure {
    /// The parser refuses the graph.
    Parse {
        /// Everything it says.
        nodes: Vec<NodeError>,
    },
    /// The timing cache is of no use here.
    Timings {
        /// Why.
        reason: String,
        /// The library's own words.
        log: Vec<String>,
    },
    /// A plan does not fit this host: the library, the GPU or the driver.
    Unfit {
        /// The plan.
        plan: PathBuf,
        /// What does not fit, both sides.
        reason: String,
        /// The library's own words, where it was asked.
        log: Vec<String>,
    },
    /// Anything else.
    Other {
        /// What failed.
        message: String,
        /// The library's own words.
        log: Vec<String>,
    },
}
