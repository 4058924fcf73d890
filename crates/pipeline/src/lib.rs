//! Pipeline files, stages, cache, manifest and bundle.

mod error;
mod file;
mod parse;
mod text;

pub use error::Error;
pub use file::{Axis, EngineSpec, ExportSpec, Hex, Id, PipelineFile, ProfileSpec, Prompts, Revision, SourceSpec, Storage, VerifySpec};
pub use parse::read_pipeline;
pub use text::Text;
