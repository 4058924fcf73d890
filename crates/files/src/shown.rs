//! Paths in JSON.

use std::path::Path;

use serde::{Serialize as _, Serializer};

/// Serialises a path as it is shown to people, what is no UTF-8 replaced: serde refuses such a path. For `#[serde(serialize_with)]`.
///
/// # Errors
/// Those of the serializer.
pub fn shown<S: Serializer>(path: impl AsRef<Path>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().to_string_lossy().serialize(serializer)
}
