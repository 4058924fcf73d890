//! Sessions over rten, ONNX Runtime and the TensorRT worker.
//!
//! [`open`] takes an ONNX graph, from a file or from memory, and gives a [`Session`]: a decoder with its cache. What a graph must look
//! like, how 16-bit graphs are computed and what can go wrong is the same for every runtime and checked here, before the runtime sees it:
//!
//! - Inputs are `input_ids`, `attention_mask`, `position_ids` (may be absent) and `past_key_values.N.key` / `.value`; outputs are `logits`
//!   and `present.N.key` / `.value`. Anything else is refused by name.
//! - External data must lie beside the graph and be as long as the graph says.
//! - [`RuntimeFacts::compute`] says which dtype the arithmetic is done in. rten computes in fp32 whatever the graph declares: 16-bit
//!   weights are widened when it loads, so its results prove the weights' rounding and not that of 16-bit arithmetic.
//! - TensorRT runs plans, not graphs: [`open_plans`].
//! - ONNX Runtime is loaded from a library found by [`find_ort`]; without one everything else works.
//!
//! After a step that fails, a session's cache is empty, as after [`Session::reset`].

mod error;
mod genai;
mod graph;
mod interface;
mod kind;
mod naming;
mod open;
mod ort;
mod plan;
mod rten;
mod tensors;

pub use self::ort::{OrtLibrary, find_ort};
pub use self::rten::RTEN_VERSION;
pub use error::{Error, Searched};
pub use graph::GraphSource;
pub use interface::ModelShape;
pub use kind::{RuntimeKind, UnknownRuntime};
pub use naming::NameMap;
pub use open::{LoadBreakdown, Loaded, OpenOptions, Optimization, RuntimeFacts, load, open};
pub use plan::{OpenedPlans, open_plans};
pub use plansmith_tensor::Session;
