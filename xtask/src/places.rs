//! Folders that tasks use.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// Where downloads are kept: `$PLANSMITH_CACHE`, else `plansmith` in the user's cache folder.
pub(crate) fn cache() -> Result<PathBuf, Error> {
    let folder = plansmith_files::cache_folder().ok_or_else(|| Error::Missing {
        what: "a cache folder".into(),
        why: "neither PLANSMITH_CACHE nor HOME is set".into(),
        hint: "set PLANSMITH_CACHE to a folder that downloads may be kept in".into(),
    })?;
    std::path::absolute(&folder).map_err(|source| plansmith_files::Error::new("resolve", &folder, source).into())
}

/// The command, as the profile `profile` (`debug` or `release`) builds it.
pub(crate) fn plansmith(profile: &str) -> PathBuf {
    target().join(profile).join("plansmith")
}
