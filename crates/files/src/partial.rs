//! Names of what is not whole yet, and what killed processes left under them.
//!
//! Who makes a file or folder under such a name locks it as long as it lives. The system lets the lock go with the process, so what is not locked was
//! left. Where a file system has no locks, nothing is removed.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::Error;
use crate::error::Context as _;

/// How such names begin.
pub(crate) const PREFIX: &str = ".plansmith-";
/// How they end.
pub(crate) const SUFFIX: &str = ".partial";

/// Whether a file or folder of this name is not whole yet, or never will be.
pub fn is_partial(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// Locks what was just made at `path`. `false`: another process took it for a leftover in between, and it has to be made anew.
///
/// # Errors
/// Those of the system.
pub fn lock_partial(file: &File, path: &Path) -> Result<bool, Error> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {
            let held = file.metadata().at("lock", path)?;
            Ok(path.symlink_metadata().is_ok_and(|there| (there.dev(), there.ino()) == (held.dev(), held.ino())))
        }
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(_) => Ok(true),
    }
}

/// Removes from `folder` what processes left that are gone. What cannot be removed stays: it harms nobody.
pub fn remove_leftovers(folder: &Path) {
    for path in crate::list(folder).unwrap_or_default().iter().filter(|path| is_partial(path)) {
        // A link or a pipe was made by somebody else.
        let Ok(kind) = path.symlink_metadata().map(|metadata| metadata.file_type()) else { continue };
        if !(kind.is_file() || kind.is_dir()) {
            continue;
        }
        let Ok(file) = File::open(path) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = if kind.is_dir() { crate::remove_dir_all(path) } else { crate::remove_file(path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AtomicFile, TempFolder};

    #[test]
    fn what_a_process_left_goes_and_what_lives_stays() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at(".plansmith-a.partial"), "half").unwrap();
        std::fs::create_dir(at(".plansmith-b.partial")).unwrap();
        std::fs::write(at(".plansmith-b.partial/file"), "half").unwrap();
        std::os::unix::fs::symlink("/", at(".plansmith-c.partial")).unwrap();
        std::fs::write(at("whole"), "").unwrap();
        let names = || crate::list(folder.path()).unwrap();
        let file = AtomicFile::create(&at("file")).unwrap();
        assert_eq!(names().len(), 3, "{:?}", names());
        let new = TempFolder::beside(&at("folder")).unwrap();
        let (partial, path) = (file.partial_path().to_owned(), new.path().to_owned());
        remove_leftovers(folder.path());
        assert!(partial.exists() && path.exists());
        file.commit().unwrap();
        crate::replace_folder(new, &at("folder")).unwrap();
        assert_eq!(names(), [".plansmith-c.partial", "file", "folder", "whole"].map(at));
    }

    #[test]
    fn a_file_that_was_taken_for_a_leftover_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".plansmith-a.partial");
        let file = File::create(&path).unwrap();
        assert!(lock_partial(&file, &path).unwrap());
        assert!(!lock_partial(&File::open(&path).unwrap(), &path).unwrap(), "another holds it");
        drop(file);
        let file = File::open(&path).unwrap();
        remove_leftovers(folder.path());
        assert!(!lock_partial(&file, &path).unwrap(), "it is gone");
    }
}
