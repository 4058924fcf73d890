//! Folders that builds make: what nothing else may be written into.

use std::path::{Component, Path, PathBuf};

use crate::manifest::MANIFEST_NAME;
use crate::output::{family, says_whose};
use crate::store::RECORD_NAME;

/// The nearest folder, `path` or one above it, that a build made or fills, or will replace: a bundle or its `.partial` or `.failed`, be it
/// there or not, where one of the three is a build's. `path` need not be there.
///
/// A file that is put into one is a change that [`crate::check_bundle`] finds, is gone with the next build, or keeps that from running.
pub fn folder_of_build(path: &Path) -> Option<PathBuf> {
    let path = resolved(path)?;
    let made = |folder: &Path| {
        let manifest = folder.join(MANIFEST_NAME);
        let sealed = || plansmith_files::is_file(&manifest) && plansmith_files::read(&manifest).is_ok_and(|text| says_whose(&text));
        plansmith_files::is_file(&folder.join(RECORD_NAME)) || sealed()
    };
    path.ancestors().find(|folder| family(folder).iter().any(|folder| made(folder))).map(Path::to_owned)
}

/// Absolute and without links. What is not there is no link.
fn resolved(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let (there, mut resolved) = path.ancestors().find_map(|folder| Some((folder, plansmith_files::canonicalize(folder).ok()?)))?;
    for part in path.strip_prefix(there).ok()?.components() {
        match part {
            Component::ParentDir => _ = resolved.pop(),
            part => resolved.push(part),
        }
    }
    Some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_folders_of_a_bundle_are_a_build_s_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let root = plansmith_files::canonicalize(folder.path()).unwrap();
        let of = |name: &str| folder_of_build(&root.join(name)).map(|found| found.strip_prefix(&root).unwrap().display().to_string());
        std::fs::create_dir(root.join("dist")).unwrap();
        assert_eq!(of("dist"), None);
        std::fs::write(root.join("dist/manifest.json"), r#"{"self_sha256": 1, "plansmith": 2}"#).unwrap();
        std::fs::create_dir(root.join("part.partial")).unwrap();
        std::fs::write(root.join("part.partial/.stages.json"), "{}").unwrap();
        for name in ["dist", "part"] {
            for suffix in ["", ".partial", ".failed"] {
                let name = format!("{name}{suffix}");
                assert_eq!(of(&name), Some(name.clone()));
                assert_eq!(of(&format!("{name}/new/plans")), Some(name.clone()));
                assert_eq!(of(&format!("new/../{name}/new")), Some(name.clone()));
            }
        }
        for name in [".", "other", "dist.old", "dist2", "dist.partial.failed", "distpartial", ".partial", "other.failed"] {
            assert_eq!(of(name), None, "{name}");
        }
        std::os::unix::fs::symlink(root.join("dist"), root.join("link")).unwrap();
        assert_eq!(of("link/engines"), Some("dist".to_owned()));
    }
}
