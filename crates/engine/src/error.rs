//! The one error of this crate.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::refusal::{Refusal, advice, grouped};
use crate::{Architecture, Unsupported};

/// What TensorRT's parser says about one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeError {
    /// Index of the node in the graph; absent where the error is about no node.
    pub index: Option<u32>,
    /// Name of the node; may be empty.
    pub name: String,
    /// Its operator; may be empty.
    pub operator: String,
    /// What is wrong.
    pub message: String,
    /// TensorRT's error code, `unsupported node` for example.
    pub code: String,
    /// Function, file and line of the parser's source.
    pub position: String,
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(index) = self.index {
            write!(f, "node {index}")?;
            if !self.name.is_empty() {
                write!(f, " `{}`", self.name)?;
            }
            if !self.operator.is_empty() {
                write!(f, " ({})", self.operator)?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{} [{}; {}]", self.message, self.code, self.position)
    }
}

/// What to export instead, and whom to leave out.
fn leaving_out(reasons: &[Unsupported]) -> String {
    let mut out: Vec<_> = reasons.iter().map(|reason| reason.architecture).collect();
    out.dedup();
    format!("export with `--dtype fp16`, or leave {} out", named(&out))
}

fn listed<T: fmt::Display>(lines: &[T]) -> String {
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

/// TensorRT's compiler dumps its graphs into a line.
fn shortened(log: &[String]) -> Vec<String> {
    const LONGEST: usize = 400;
    let shorten = |line: &String| match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} … ({} more bytes)", &line[..end], line.len() - end),
        None => line.clone(),
    };
    log.iter().map(shorten).collect()
}

fn made_by(producer: &Option<String>) -> String {
    producer.as_ref().map_or_else(String::new, |producer| format!(" (made by {})", producer.escape_debug()))
}

fn named(architectures: &[Architecture]) -> String {
    architectures.iter().map(|architecture| architecture.name()).collect::<Vec<_>>().join(", ")
}

/// Why something about plans failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A profile that cannot be.
    #[error("profile `{profile}`: {reason}")]
    Profile {
        /// Its name, or the text that was to be one.
        profile: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A profile whose name can be no file's.
    #[error("profile `{0}`: a name has 1 to 64 of the characters A-Z a-z 0-9 _ - (it becomes a file name)")]
    ProfileName(String),
    /// A second profile of a name.
    #[error("profile `{0}`: another profile has this name")]
    SameProfileName(String),
    /// A profile and a graph that do not fit each other.
    #[error("profile `{profile}` does not fit the graph: {reason}")]
    Shapes {
        /// The profile's name.
        profile: String,
        /// Input, axis and both numbers.
        reason: String,
    },
    /// A name that is no architecture.
    #[error("unknown architecture `{name}`")]
    UnknownArchitecture {
        /// As given.
        name: String,
        /// One that is spelt alike.
        nearest: Option<Architecture>,
    },
    /// A data-centre GPU that the rtx flavour does not build for.
    #[error("`{name}` is not an architecture of TensorRT for RTX: TensorRT-RTX has no {architecture}")]
    ArchitectureOfEnterprise {
        /// As given.
        name: String,
        /// `sm90`, for example.
        architecture: &'static str,
    },
    /// No architecture was named, or one twice.
    #[error("architectures `{0}`: name each architecture once, and at least one")]
    Architectures(String),
    /// The enterprise flavour was given architectures.
    #[error("the enterprise flavour of TensorRT builds for the GPU of the machine that it runs on, and for no other")]
    ArchitecturesOfEnterprise,
    /// The rtx flavour was given the machine's own GPU.
    #[error("TensorRT-RTX builds for architectures that are named, on any machine, and not for `{}`", crate::NATIVE)]
    NativeOfRtx,
    /// One plan of several architectures was to be stripped.
    #[error("TensorRT strips plans of one architecture only, and this one is for {}", named(.0))]
    StrippedTogether(Vec<Architecture>),
    /// A plan or its manifest would replace a folder.
    #[error("`{}` is a folder, and a plan is to be written there", path.display())]
    InTheWay {
        /// The folder.
        path: PathBuf,
    },
    /// The graph or its data did not stay as they were hashed.
    #[error("`{}` changed while a plan was built from it", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A kind of compatibility that is none, or that cannot be had.
    #[error("a plan cannot be made compatible in the way `{names}`: {reason}")]
    Compatible {
        /// As given.
        names: String,
        /// What is wrong.
        reason: String,
    },
    /// Element types that an architecture does not take.
    #[error("this graph cannot run on every architecture that was named:{}", listed(.0))]
    Unsupported(Vec<Unsupported>),
    /// A name that is no flavour.
    #[error("unknown TensorRT flavour `{0}`: it is `rtx` or `enterprise`")]
    UnknownFlavor(String),
    /// An ONNX file that is not fit to be built.
    #[error("cannot build `{}`: {reason}", path.display())]
    Model {
        /// The ONNX file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A graph with nodes that TensorRT does not take.
    #[error("TensorRT cannot take `{}`{}: {} of its nodes{}", path.display(), made_by(.producer), nodes.len(), listed(&grouped(.nodes)))]
    Refused {
        /// The ONNX file.
        path: PathBuf,
        /// Who made it, as it says itself.
        producer: Option<String>,
        /// All of them, in the graph's order.
        nodes: Vec<Refusal>,
    },
    /// A graph with inputs that nothing reads.
    #[error("TensorRT drops inputs of `{}` that no node reads, so the plan would take other inputs than the graph (Unused Input: {})",
        path.display(), inputs.join(", "))]
    Unread {
        /// The ONNX file.
        path: PathBuf,
        /// Their names.
        inputs: Vec<String>,
    },
    /// The ONNX decoder's error.
    #[error("cannot read `{}` as ONNX", path.display())]
    Onnx {
        /// The ONNX file.
        path: PathBuf,
        /// The decoder's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file that is no plan, or not a whole one.
    #[error("`{}` is not a whole TensorRT plan: {reason}", path.display())]
    Plan {
        /// The plan.
        path: PathBuf,
        /// What is off.
        reason: String,
    },
    /// A plan that is not the one its manifest describes.
    #[error("plan `{}` is not what its manifest says: {what}: {found} in the plan, {expected} in the manifest", path.display())]
    PlanMismatch {
        /// The plan.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// In the plan.
        found: String,
        /// In the manifest.
        expected: String,
    },
    /// A manifest that cannot be read.
    #[error("plan manifest `{}` is not readable", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Line, column and key.
        #[source]
        source: serde_json::Error,
    },
    /// The worker executable or the libraries are nowhere.
    #[error("{what} not found; looked at:{}", listed(.looked))]
    Missing {
        /// What is missing.
        what: String,
        /// Where it was looked for.
        looked: Vec<String>,
        /// How to get it, and how to point at it.
        hint: String,
    },
    /// The worker cannot be started, or is not a worker.
    #[error("TensorRT worker `{}`: {reason}", worker.display())]
    Spawn {
        /// The executable.
        worker: PathBuf,
        /// Why.
        reason: String,
    },
    /// The worker ended without an answer.
    #[error("the TensorRT worker died while {doing}: {status}{}", listed(.output))]
    WorkerDied {
        /// What it was asked to do.
        doing: String,
        /// Exit status or signal.
        status: String,
        /// The last lines it printed.
        output: Vec<String>,
    },
    /// A name that says nothing about weights.
    #[error("unknown kind of weights `{0}`: it is `embedded`, `streaming` or `stripped`")]
    UnknownWeights(String),
    /// A weight that cannot be taken out of a plan.
    #[error("weights cannot be left out of a plan of `{}`: `{weight}`: {reason}", path.display())]
    Refit {
        /// The ONNX file.
        path: PathBuf,
        /// TensorRT's name of the weight.
        weight: String,
        /// What does not fit.
        reason: String,
    },
    /// A data file that a stripped plan needs.
    #[error("the weights of plan `{}` are in `{file}`, which {reason}", plan.display())]
    Data {
        /// The plan.
        plan: PathBuf,
        /// Bare name of the data file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// A timing cache that is of no use.
    #[error("timing cache `{}`: {reason}{}", path.display(), listed(log))]
    TimingCache {
        /// The file.
        path: PathBuf,
        /// Why it is of no use.
        reason: String,
        /// The library's own words, where it was asked.
        log: Vec<String>,
        /// The next step.
        hint: &'static str,
    },
    /// The worker took too long.
    #[error("the TensorRT worker was stopped while {doing}: it took longer than {} s", limit.as_secs_f64())]
    TimedOut {
        /// What it was asked to do.
        doing: String,
        /// The longest time that was allowed.
        limit: Duration,
    },
    /// The worker did nothing any more.
    #[error("the TensorRT worker was stopped while {doing}: it did nothing for {} s", limit.as_secs_f64())]
    Idle {
        /// What it was asked to do.
        doing: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// Somebody stopped the work.
    #[error("stopped while {doing}")]
    Cancelled {
        /// What was being done.
        doing: String,
    },
    /// A thread that builds a plan panicked.
    #[error("a thread that builds a plan panicked, which is a fault of plansmith: {said}")]
    Panicked {
        /// What it said.
        said: String,
    },
    /// What came over the worker's descriptor is not a message.
    #[error("the TensorRT worker's answer is not understood: {0}")]
    Protocol(String),
    /// The parser refuses the graph.
    #[error("TensorRT cannot parse `{}`:{}", path.display(), listed(.nodes))]
    Parse {
        /// The ONNX file.
        path: PathBuf,
        /// Everything the parser says.
        nodes: Vec<NodeError>,
    },
    /// A plan that was built for another host than this.
    #[error("plan `{}` cannot run here: {reason}{}", path.display(), listed(.log))]
    Unfit {
        /// The plan.
        path: PathBuf,
        /// What does not fit, both sides.
        reason: String,
        /// The library's own words, where it was asked.
        log: Vec<String>,
    },
    /// The worker refuses or fails; it says why.
    #[error("{message}{}", listed(&shortened(.log)))]
    Worker {
        /// What failed.
        message: String,
        /// The library's own words.
        log: Vec<String>,
    },
    /// File access.
    #[error(transparent)]
    File(#[from] plansmith_files::Error),
}

impl Error {
    /// The next step, to be printed last.
    pub fn hint(&self) -> Option<String> {
        let builds_for = || format!("TensorRT-RTX builds for {}", named(&Architecture::ALL));
        match self {
            Self::UnknownArchitecture { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`? {}", builds_for())),
            Self::UnknownArchitecture { nearest: None, .. } | Self::Architectures(_) => Some(builds_for()),
            Self::ArchitectureOfEnterprise { .. } => Some(format!(
                "H100, H200 and B200 need the enterprise flavour, which builds only on the GPU that it targets; {}",
                builds_for()
            )),
            Self::ArchitecturesOfEnterprise => {
                Some(format!("name `{}` as its architecture, on a machine with the GPU that the plan is for", crate::NATIVE))
            }
            Self::NativeOfRtx => Some(format!("{}; `{}` is for the enterprise flavour", builds_for(), crate::NATIVE)),
            Self::SameProfileName(_) => {
                Some("give one of them another name: `--profile NAME:chat` for a preset, NAME:batch=… else".to_owned())
            }
            Self::ProfileName(_) => Some("rename it, as in `--profile chat-short:chat`".to_owned()),
            Self::Profile { .. } => Some("a profile reads NAME:batch=1,sequence=1..128..1024,past=0..512..2048".to_owned()),
            Self::StrippedTogether(_) => Some("make a plan for each architecture (`plan-each`), or embed the weights".to_owned()),
            Self::InTheWay { .. } => Some("name another folder, or move that one".to_owned()),
            Self::Changed { .. } => Some("build again when nothing writes to it; no plan of it was kept".to_owned()),
            Self::Missing { hint, .. } => Some(hint.clone()),
            Self::TimingCache { hint, .. } => Some((*hint).to_owned()),
            Self::PlanMismatch { .. } | Self::Plan { .. } => Some("build the plan again".to_owned()),
            Self::Unfit { .. } => {
                Some("build the plan for this host, with its library: plansmith engine MODEL.onnx --arch smXX".to_owned())
            }
            Self::Unsupported(reasons) => Some(leaving_out(reasons)),
            Self::Idle { .. } => Some("TensorRT waits for itself where memory ran out: build fewer plans at once (`--jobs 1`)".to_owned()),
            Self::TimedOut { .. } => Some("give it more time with `--timeout`; plans that were built before it stay where they are".to_owned()),
            Self::WorkerDied { status, .. } if status.contains("signal: 9") => {
                Some("killed from outside; where memory ran out, build fewer profiles at once or shorten them".to_owned())
            }
            Self::WorkerDied { doing, status, .. } if doing.starts_with("building") && status.contains("signal") => Some(
                "TensorRT died of this graph; `plansmith export CHECKPOINT -o DIR --dialect tensorrt` writes a form that it is known to take"
                    .to_owned(),
            ),
            Self::Worker { log, .. } if log.iter().any(|line| line.contains("SM75")) => {
                Some("sm75 multiplies fp16 only: export with `--compute fp16`, or leave sm75 out".to_owned())
            }
            Self::Refit { .. } => Some("build with `--weights embedded`".to_owned()),
            Self::Data { .. } => Some("put the very file that the plan was built from beside the plan, or build the plan again".to_owned()),
            Self::Refused { nodes, .. } => advice(nodes),
            Self::Unread { .. } => Some(
                "`plansmith export CHECKPOINT -o DIR --dialect tensorrt` reads every input that carries meaning; in a graph of your own, \
                 remove the input or use it"
                    .to_owned(),
            ),
            Self::Worker { log, .. } if log.iter().any(|line| line.contains("Myelin")) => Some(
                "TensorRT's compiler stops at a form of this graph; `plansmith export CHECKPOINT -o DIR --dialect tensorrt` writes one that it \
                 is known to take, and `--opset 21` attention without the Attention operator"
                    .to_owned(),
            ),
            Self::Parse { .. } => Some("export with `--dialect tensorrt`, the form that TensorRT's parser takes".to_owned()),
            _ => None,
        }
    }
}
