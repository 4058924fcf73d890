//! A plan under a partial name, which nobody takes for a plan.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use plansmith_files::{self as files, Digest};
use rustix::fs::{FlockOperation, flock};

const PREFIX: &str = ".plansmith-plan-";
const SUFFIX: &str = ".partial";

/// Writes a plan beside its final place, syncs it, and hashes it meanwhile. It is locked as long as the file is open: what is not locked was left
/// by a process that is gone.
pub(crate) fn write(folder: &Path, plan: &[u8]) -> Result<(File, Digest), files::Error> {
    let path = folder.join(plansmith_engine::partial_name(std::process::id()));
    let at = |action| move |error: std::io::Error| (action, error);
    let mut file = files::create(&path)?;
    let locked = flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(std::io::Error::from).map_err(at("lock"));
    let written = locked.and_then(|()| {
        std::thread::scope(|scope| {
            let hash = scope.spawn(|| Digest::of(plan));
            file.write_all(plan).map_err(at("write"))?;
            file.sync_all().map_err(at("sync"))?;
            hash.join().map_err(|_| at("hash")(std::io::Error::other("the thread for it panicked")))
        })
    });
    let digest = written.map_err(|(action, error)| files::Error::new(action, &path, error))?;
    Ok((file, digest))
}

/// Removes what killed workers left in `folder`; what a living one writes is locked and stays.
pub(crate) fn remove_leftovers(folder: &Path) -> Result<(), files::Error> {
    for path in files::list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !(name.starts_with(PREFIX) && name.ends_with(SUFFIX)) {
            continue;
        }
        match files::open(&path) {
            Ok(file) if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() => files::remove_file(&path)?,
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_go_and_living_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(".plansmith-plan-1.partial");
        std::fs::write(&left, "half").unwrap();
        std::fs::write(folder.path().join("decode.plan"), "whole").unwrap();
        let (living, digest) = write(folder.path(), b"plan").unwrap();
        remove_leftovers(folder.path()).unwrap();
        assert!(!left.exists() && folder.path().join("decode.plan").exists());
        let name = plansmith_engine::partial_name(std::process::id());
        assert_eq!(std::fs::read(folder.path().join(name)).unwrap(), b"plan");
        // `printf plan | sha256sum`
        assert_eq!(digest.to_string(), "64879f7d6b960a01909762d911a32d4582c20010c5641ee90278b644a9e3b525");
        drop(living);
        remove_leftovers(folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
