//! A plan under a partial name, which nobody takes for a plan.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use plansmith_files::{self as files, Digest};

/// Writes a plan beside its final place, syncs it, and hashes it meanwhile. It is locked as long as the file is open: what is not locked was left
/// by a process that is gone.
pub(crate) fn write(folder: &Path, plan: &[u8]) -> Result<(File, Digest), files::Error> {
    let path = folder.join(plansmith_engine::partial_name(std::process::id()));
    let at = |action| move |error: std::io::Error| (action, error);
    let mut file = files::create(&path)?;
    while !files::lock_partial(&file, &path)? {
        file = files::create(&path)?;
    }
    let written = std::thread::scope(|scope| {
        let hash = scope.spawn(|| Digest::of(plan));
        file.write_all(plan).map_err(at("write"))?;
        file.sync_all().map_err(at("sync"))?;
        hash.join().map_err(|_| at("hash")(std::io::Error::other("the thread for it panicked")))
    });
    let digest = written.map_err(|(action, error)| files::Error::new(action, &path, error))?;
    Ok((file, digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_locked_as_long_as_its_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let (living, digest) = write(folder.path(), b"plan").unwrap();
        files::remove_leftovers(folder.path());
        let path = folder.path().join(plansmith_engine::partial_name(std::process::id()));
        assert_eq!(std::fs::read(&path).unwrap(), b"plan");
        // `printf plan | sha256sum`
        assert_eq!(digest.to_string(), "64879f7d6b960a01909762d911a32d4582c20010c5641ee90278b644a9e3b525");
        drop(living);
        // Processes that other tests start hold what is open here until they execute something.
        for _ in 0..1000 {
            files::remove_leftovers(folder.path());
            if !path.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("{} is still there", path.display());
    }
}
