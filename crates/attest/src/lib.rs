//! What says how an artifact was made, and who says so.
//!
//! A [`Statement`] of in-toto carries provenance as SLSA 1.0 lays it out; an [`Envelope`] (DSSE) signs one with ed25519. Keys are PEM, as
//! OpenSSL writes them.

mod envelope;
mod error;
mod key;
mod statement;

pub use envelope::Envelope;
pub use error::Error;
pub use key::{SecretKey, VerifyingKey};
pub use statement::{BuildDefinition, Builder, Metadata, Provenance, Resource, RunDetails, Statement, rfc3339};
