//! GGUF files: what they hold, and their import as a checkpoint.
//!
//! [`Gguf::open`] reads the header of a file of any architecture; [`import`] writes a llama model as a folder that transformers and
//! plansmith load. Nothing is guessed: a key, a tensor or a tokenizer that cannot be carried over exactly stops the import by name.

mod config;
mod dequant;
mod error;
mod file;
mod ggml_type;
mod import;
mod metadata;
mod model;
mod reader;
mod rope;
mod tensors;
mod tokenizer;
mod value;
mod weights;

pub use dequant::dequantize;
pub use error::{Error, FolderProblem, Problem};
pub use file::{Gguf, GgufTensor};
pub use ggml_type::GgmlType;
pub use import::{ImportOptions, Imported, import};
pub use value::{Array, Value};
