//! ONNX protobuf types, encoding, decoding and external-data references.
//!
//! The schema is `proto/onnx.proto`; what the fields mean is said by the ONNX specification (`docs/IR.md`, `docs/ExternalData.md`).
//! Foreign bytes never panic here, recursion and memory are bounded ([`decode`]), and [`validate`] refuses what a runtime might read otherwise
//! than we do.

#![forbid(unsafe_code)]

mod budget;
mod checker;
mod codec;
mod contents;
mod dtype;
mod error;
mod external;
mod files;
mod functions;
mod growth;
mod order;
mod quote;
mod signature;
mod validate;

/// The generated messages, named as in the ONNX standard.
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated from proto/onnx.proto; the standard documents the fields")]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/onnx.rs"));
}

pub use checker::{Findings, check};
pub use codec::{decode, encode, load};
pub use dtype::{data_type, dtype};
pub use error::Error;
pub use external::{ExternalData, external_files, tensors};
pub use files::{DataFile, Links, data_files};
pub use proto::ModelProto;
pub use signature::signature;
pub use validate::validate;

/// The number of elements of a shape; `None` where a dimension is negative or the product overflows.
pub(crate) fn elements_of(dims: &[i64]) -> Option<u64> {
    contents::elements(dims).ok()
}
