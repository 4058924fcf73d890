//! A plan and its manifest are put in their places as one.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use plansmith_files::{AtomicFile, FolderLock, folder_of};

use crate::{Error, PlanManifest, manifest_path};

/// Refuses places that a file cannot take.
///
/// # Errors
/// [`Error::InTheWay`].
pub(crate) fn check(output: &Path) -> Result<(), Error> {
    let in_the_way = [output.to_owned(), manifest_path(output)].into_iter().find(|path| plansmith_files::is_dir(path));
    in_the_way.map_or(Ok(()), |path| Err(Error::InTheWay { path }))
}

/// Gives the plan at `partial`, in the folder of `output`, its name, and puts `manifest` beside it. Others who do so in this folder wait: two
/// builds of one plan leave the pair of one of them.
///
/// # Errors
/// [`Error::File`]; what was there before is then untouched, as far as the system lets it.
pub(crate) fn place(partial: &Path, manifest: &PlanManifest, output: &Path) -> Result<PathBuf, Error> {
    let (folder, path) = (folder_of(output), manifest_path(output));
    let _lock = FolderLock::wait(folder)?;
    check(output)?;
    // All that a full disk could refuse is written before the first of the two gets its name.
    let mut beside = AtomicFile::create(&path)?;
    let written = beside.write_all(manifest.text(&path)?.as_bytes()).and_then(|()| beside.file().sync_all());
    written.map_err(|error| plansmith_files::Error::new("write", &path, error))?;
    plansmith_files::rename(partial, output)?;
    beside.commit()?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_build_one_plan_leave_the_pair_of_one_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("decode.plan");
        let text = include_str!("../tests/data/static.json");
        let manifest = |bytes: u64| {
            let mut manifest: PlanManifest = serde_json::from_str(text).unwrap();
            manifest.plan.bytes = bytes;
            manifest
        };
        std::thread::scope(|scope| {
            for bytes in [3, 5, 7] {
                let (folder, output) = (folder.path(), &output);
                scope.spawn(move || {
                    for round in 0..40 {
                        let partial = folder.join(format!("{bytes}-{round}"));
                        std::fs::write(&partial, vec![0; bytes]).unwrap();
                        place(&partial, &manifest(bytes as u64), output).unwrap();
                        let _lock = FolderLock::wait(folder).unwrap();
                        let found = PlanManifest::read(&manifest_path(output)).unwrap().plan.bytes;
                        assert_eq!(std::fs::metadata(output).unwrap().len(), found);
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
