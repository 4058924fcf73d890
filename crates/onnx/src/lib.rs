//! ONNX protobuf types, encoding, decoding and external-data references.
//!
//! The schema is `proto/onnx.proto`; what the fields mean is said by the ONNX specification (`docs/IR.md`, `docs/ExternalData.md`).
//! Foreign bytes never panic here and recursion is bounded: see [`decode`].

#![forbid(unsafe_code)]

mod codec;
mod dtype;
mod error;
mod external;
mod signature;

/// The generated messages, named as in the ONNX standard.
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated from proto/onnx.proto; the standard documents the fields")]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/onnx.rs"));
}

pub use codec::{decode, encode, load};
pub use dtype::{data_type, dtype};
pub use error::Error;
pub use external::{ExternalData, external_files, tensors};
pub use proto::ModelProto;
pub use signature::signature;
