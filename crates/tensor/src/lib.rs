//! Dtypes, host tensors and the [`Session`] trait that every runtime implements.
//!
//! This crate knows no model, no file format and no runtime: it is the vocabulary that the others share.

mod batch;
mod dtype;
mod error;
mod host;
mod session;
mod tap;

pub use batch::{Batch, positions_from_mask};
pub use dtype::{DType, UnknownDType};
pub use error::SessionError;
pub use host::HostTensor;
pub use session::{Cache, CacheLayer, Logits, Session, Signature, TensorSignature};
pub use tap::Tap;
