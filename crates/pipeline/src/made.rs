//! Folders that builds make: what nothing else may be written into.

use std::path::{Path, PathBuf};

use crate::manifest::MANIFEST_NAME;
use crate::output::says_whose;
use crate::store::RECORD_NAME;

/// The nearest folder, `path` or one above it, that a build made or fills: a bundle or its `.partial` or `.failed`. `path` need not be there.
///
/// A file that is put into one is a change that [`crate::check_bundle`] finds, and is gone with the next build.
pub fn folder_of_build(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let there = path.ancestors().find_map(|folder| plansmith_files::canonicalize(folder).ok())?;
    let made = |folder: &Path| {
        let manifest = folder.join(MANIFEST_NAME);
        let sealed = || plansmith_files::is_file(&manifest) && plansmith_files::read(&manifest).is_ok_and(|text| says_whose(&text));
        plansmith_files::is_file(&folder.join(RECORD_NAME)) || sealed()
    };
    there.ancestors().find(|folder| made(folder)).map(Path::to_owned)
}
