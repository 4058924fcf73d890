//! From a [`plansmith_families::DecoderSpec`] and a [`Target`] to an ONNX graph and the files its weights lie in.
//!
//! [`lower`] holds the only loop over layers that builds graphs; `blocks` are plain functions. [`export`] writes the result.

mod audit;
mod blocks;
mod context;
mod error;
mod export;
mod kv;
mod lower;
mod source;
mod target;
mod weights;

pub use audit::{Audited, audit_initializers};
pub use error::Error;
pub use export::{Exported, ExportedFile, Placement, WeightsMode, export, graph_name};
pub use kv::Kv;
pub use lower::{Lowered, lower};
pub use source::Source;
pub use target::{COMPOSITE_OPSET, Dialect, Float, Form, LogitsAt, PRIMITIVE_OPSET, STATIC_OPSET, Target, WeightNames};
pub use weights::{SourceFile, Stored, WeightFiles, WeightTable};
