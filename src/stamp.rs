//! What this build is.

/// `0.1.0 (commit, target)`.
pub(crate) const LONG: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("PLANSMITH_COMMIT"), ", ", env!("PLANSMITH_TARGET"), ")");
