//! From a graph to a session.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use plansmith_engine::DeviceOptions;
use plansmith_tensor::{DType, Session};

use crate::graph::Graph;
use crate::interface::ModelShape;
use crate::{Error, GraphSource, NameMap, RuntimeKind, ort, rten};

/// How a runtime may change the graph before it runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Optimization {
    /// All that the runtime knows.
    #[default]
    Full,
    /// Nothing: the operators run as the graph has them.
    Off,
}

/// How to open a session.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// Threads within an operator; `None` leaves the choice to the runtime (the physical cores).
    pub threads: Option<usize>,
    /// The library of ONNX Runtime, or its folder; `None` searches (see [`crate::find_ort`]).
    pub ort_library: Option<PathBuf>,
    /// What the runtime may change.
    pub optimization: Optimization,
    /// Values inside the graph, by name, that each step also gives: see [`Session::tapped`]. The graph is changed in memory only.
    pub taps: Vec<String>,
    /// What inputs and outputs are for, where their names do not tell.
    pub names: NameMap,
    /// What graphs may leave open. For graphs of onnxruntime-genai's builder the `genai_config.json` beside them says it too.
    pub shape: Option<ModelShape>,
    /// Refuse rows with padding, for graphs that are only ever fed without.
    pub unpadded: bool,
    /// Where plans run.
    pub device: DeviceOptions,
}

/// What executes a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeFacts {
    /// Which runtime.
    pub kind: RuntimeKind,
    /// Its version.
    pub version: String,
    /// The library it was loaded from; `None` where it is part of this program.
    pub library: Option<PathBuf>,
    /// The dtype that it computes in: `F32` for rten; for ONNX Runtime that of the cache, or of the logits where there is none.
    pub compute: DType,
}

/// Where the time of opening a session went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadBreakdown {
    /// Reading and decoding the graph, and checking it and its external data's sizes; of plans, comparing them with their manifests.
    pub header: Duration,
    /// Reading plans; mapping the weights and converting those that the runtime cannot read as they are. ONNX Runtime maps them itself: zero.
    pub map: Duration,
    /// Deserialising plans; TensorRT moves the weights to the device within it. Zero for graphs.
    pub deserialise: Duration,
    /// Contexts of plans; TensorRT-RTX compiles kernels within it, unless they were kept from another time. Zero for graphs.
    pub context: Duration,
    /// The runtime's own work: its library, graph optimisation, packing of weights; buffers on the device.
    pub session: Duration,
}

impl LoadBreakdown {
    /// All of it.
    pub fn total(&self) -> Duration {
        self.header + self.map + self.deserialise + self.context + self.session
    }
}

/// An open session and what is known about it.
pub struct Loaded {
    /// The session, its cache empty, for one row.
    pub session: Box<dyn Session>,
    /// What executes it.
    pub facts: RuntimeFacts,
    /// Where the time went.
    pub breakdown: LoadBreakdown,
}

/// Opens a graph on a runtime; the session's cache is empty, for one row.
///
/// # Errors
/// Those of [`load`].
pub fn open(kind: RuntimeKind, source: GraphSource<'_>, options: &OpenOptions) -> Result<Box<dyn Session>, Error> {
    load(kind, source, options).map(|loaded| loaded.session)
}

/// Opens a graph on a runtime and says what executes it and where the time of opening went.
///
/// # Errors
/// The graph cannot be read, is not a decoder graph, refers to data that is missing, short or elsewhere; the runtime is missing or
/// refuses the graph. A `TensorRt` session runs plans, not graphs, and is refused.
pub fn load(kind: RuntimeKind, source: GraphSource<'_>, options: &OpenOptions) -> Result<Loaded, Error> {
    let start = Instant::now();
    let mut graph = Graph::read(source, options)?;
    graph.tap(&options.taps);
    let header = start.elapsed();
    let mut loaded = match kind {
        RuntimeKind::Rten => rten::load(graph, options)?,
        RuntimeKind::Ort => ort::load(graph, options)?,
        RuntimeKind::TensorRt => {
            return Err(Error::Refused {
                runtime: kind,
                graph: graph.name,
                message: "it runs plans; build one with `plansmith engine`".to_owned(),
            });
        }
    };
    loaded.breakdown.header = header;
    Ok(loaded)
}
