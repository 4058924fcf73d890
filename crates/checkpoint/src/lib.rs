//! Find, validate, map, convert and audit checkpoint weights.
//!
//! [`Checkpoint::open`] costs as much as the headers: it finds `model.safetensors` or the index with its shards, checks every
//! header against its file, and reads no payload. What reads payload says so: [`Checkpoint::map`], [`write_safetensors`], [`audit`].
//!
//! The reader is stricter than the `safetensors` crate where that one is silent (duplicate keys, unknown fields, what a foreign file
//! really is) and as lax where the format is (any name, any alignment, entries in any order).

mod audit;
mod cache;
mod checkpoint;
mod convert;
mod error;
mod foreign;
pub mod gguf;
mod header;
mod index;
mod json;
mod layout;
mod mmap;
mod ordered;
mod revision;
mod scan;
mod stream;
mod weight_file;

pub use audit::{Audit, FileAudit, audit, audit_file};
pub use checkpoint::{Checkpoint, INDEX_NAME, SINGLE_NAME};
pub use convert::{Conversion, Overflow, convert};
pub use error::{Error, FolderError, RangeProblem};
pub use foreign::Foreign;
pub use header::{Header, HeaderError, TensorInfo};
pub use index::{Index, IndexError};
pub use json::{JsonError, parse_json};
pub use layout::{ConvertedTensor, Layout, Planned, layout};
pub use mmap::Mapped;
pub use revision::{commit_of_folder, edited_since_fetched};
pub use scan::{Scan, scan};
pub use stream::{Written, write_safetensors};
pub use weight_file::{FileSummary, WeightFile, inspect_file};
