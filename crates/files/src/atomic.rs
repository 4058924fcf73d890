//! Files and folders that appear complete or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use tempfile::{NamedTempFile, TempDir};

use crate::Error;
use crate::access::folder_of;
use crate::error::Context as _;
use crate::partial::{PREFIX, SUFFIX, lock_partial, remove_leftovers};

/// A file being written beside its final name; dropped without [`AtomicFile::commit`] it disappears.
#[derive(Debug)]
pub struct AtomicFile {
    file: NamedTempFile,
    target: PathBuf,
}

/// Makes files and folders under a name that is not final.
fn named() -> tempfile::Builder<'static, 'static> {
    let mut named = tempfile::Builder::new();
    named.prefix(PREFIX).suffix(SUFFIX);
    named
}

impl AtomicFile {
    /// Starts a file that will be `target`; its folder must exist.
    ///
    /// # Errors
    /// Those of the system.
    pub fn create(target: &Path) -> Result<Self, Error> {
        Self::create_in(folder_of(target), target)
    }

    fn create_in(folder: &Path, target: &Path) -> Result<Self, Error> {
        remove_leftovers(folder);
        loop {
            let file = named().permissions(std::fs::Permissions::from_mode(0o644)).tempfile_in(folder).at("create", target)?;
            if lock_partial(file.as_file(), file.path())? {
                return Ok(Self { file, target: target.to_owned() });
            }
        }
    }

    /// The open file, for positioned writes from several threads.
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// The open file, for sequential writes.
    pub fn file_mut(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// The path while it is not committed.
    pub fn partial_path(&self) -> &Path {
        self.file.path()
    }

    /// Syncs and renames onto the final name, then syncs the folder.
    ///
    /// # Errors
    /// Those of the system; nothing is left under the final name that was not there before.
    pub fn commit(self) -> Result<(), Error> {
        self.file.as_file().sync_all().at("sync", &self.target)?;
        self.file.persist(&self.target).map_err(|error| error.error).at("rename to", &self.target)?;
        sync_folder(folder_of(&self.target))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.file.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes `bytes` under `target`, complete or not at all.
///
/// # Errors
/// Those of the system.
pub fn write_atomic(target: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut file = AtomicFile::create(target)?;
    file.write_all(bytes).at("write", target)?;
    file.commit()
}

/// As [`write_atomic`], into a folder that holds nothing else at any time: what a run leaves that is killed meanwhile lies beside that folder, where
/// this user may write there and it is of the same file system.
///
/// # Errors
/// Those of the system.
pub fn write_atomic_from_outside(target: &Path, bytes: &[u8]) -> Result<(), Error> {
    let outside = crate::canonicalize(folder_of(target))?.parent().map(Path::to_owned);
    let attempt = |folder: &Path| {
        let mut file = AtomicFile::create_in(folder, target)?;
        file.write_all(bytes).at("write", target)?;
        file.commit()
    };
    match outside.map(|folder| attempt(&folder)) {
        Some(Ok(())) => Ok(()),
        _ => write_atomic(target, bytes),
    }
}

fn sync_folder(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|folder| folder.sync_all()).at("sync folder", path)
}

/// A folder being filled beside its final name; dropped without [`TempFolder::keep`] it disappears.
#[derive(Debug)]
pub struct TempFolder {
    folder: TempDir,
    lock: File,
}

impl TempFolder {
    /// A new folder beside `target`, whose parent is created.
    ///
    /// # Errors
    /// Those of the system.
    pub fn beside(target: &Path) -> Result<Self, Error> {
        let parent = folder_of(target);
        crate::create_dir_all(parent)?;
        remove_leftovers(parent);
        loop {
            let folder = named().permissions(std::fs::Permissions::from_mode(0o755)).tempdir_in(parent).at("create folder", target)?;
            // It may be gone already.
            let lock = match crate::open(folder.path()) {
                Err(error) if error.is_not_found() => continue,
                lock => lock?,
            };
            if lock_partial(&lock, folder.path())? {
                return Ok(Self { folder, lock });
            }
        }
    }

    /// Where it is now.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves it where it is.
    pub fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}

/// Folders that were missing and are made; those that are empty in the end are removed again.
#[derive(Debug)]
pub struct NewFolders(Vec<PathBuf>);

impl NewFolders {
    /// Makes `paths` and their parents.
    ///
    /// # Errors
    /// Those of the system.
    pub fn create<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<Self, Error> {
        let mut new = Self(Vec::new());
        for path in paths {
            let missing: Vec<_> = path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
            new.0.extend(missing.into_iter().rev().map(Path::to_owned));
            crate::create_dir_all(path)?;
        }
        Ok(new)
    }
}

impl Drop for NewFolders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            // One that holds something stays.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Puts `new` where `target` is in one step; what was at `target` is removed afterwards.
///
/// # Errors
/// Those of [`exchange_folder`].
pub fn replace_folder(new: TempFolder, target: &Path) -> Result<(), Error> {
    let TempFolder { folder, lock: _lock } = new;
    exchange_folder(&folder.keep(), target, &[])
}

/// Puts the folder `new` where `target` is in one step; what was at `target` is removed afterwards.
///
/// Uses `renameat2(RENAME_EXCHANGE)`, so a reader sees the old folder or the new one, never neither. The old one is removed as by
/// [`remove_marked`].
///
/// # Errors
/// Those of the system; `target` is then untouched.
pub fn exchange_folder(new: &Path, target: &Path, marks: &[&str]) -> Result<(), Error> {
    sync_folder(new)?;
    if target.exists() {
        // It gets the name of what was locked under it, and is still there for a while.
        let _lock = if target.is_dir() { FolderLock::take(target)? } else { None };
        rustix::fs::renameat_with(CWD, new, CWD, target, RenameFlags::EXCHANGE).map_err(io::Error::from).at("exchange", target)?;
        sync_folder(folder_of(target))?;
        remove_marked(new, marks)
    } else {
        crate::rename(new, target)?;
        sync_folder(folder_of(target))
    }
}

/// Removes a folder, the files `marks` in it last: a run that is killed meanwhile leaves a folder that still says whose it is.
///
/// # Errors
/// Those of the system.
pub fn remove_marked(folder: &Path, marks: &[&str]) -> Result<(), Error> {
    let is_mark = |path: &PathBuf| path.file_name().is_some_and(|name| marks.iter().any(|mark| name == *mark));
    for path in crate::list(folder)?.into_iter().filter(|path| !is_mark(path)) {
        // A link to a folder is a file here.
        if path.is_dir() && !path.is_symlink() { crate::remove_dir_all(&path)? } else { crate::remove_file(&path)? }
    }
    crate::remove_dir_all(folder)
}

/// Writes a new file that only its owner may read; nothing is left where that fails.
///
/// # Errors
/// Those of the system; one that is there already is one.
pub fn write_secret(target: &Path, bytes: &[u8]) -> Result<(), Error> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let file = File::options().write(true).create_new(true).mode(0o600).open(target).at("create", target)?;
    let written = (&file).write_all(bytes).and_then(|()| file.sync_all()).at("write", target);
    if written.is_err() {
        // It was made here a moment ago. Half a key would be in the way of the next run.
        crate::remove_file(target)?;
    }
    written
}

/// A lock on a folder that one process holds at a time; it ends with the process, however that ends.
#[derive(Debug)]
pub struct FolderLock(#[expect(dead_code, reason = "the lock lives as long as the file is open")] File);

impl FolderLock {
    /// Takes the lock, or gives `None` where another process holds it, or removed or replaced the folder meanwhile.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn take(folder: &Path) -> Result<Option<Self>, Error> {
        let file = crate::open(folder)?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let [held, there] = [file.metadata().at("lock", folder)?, folder.metadata().at("lock", folder)?];
                Ok(((held.dev(), held.ino()) == (there.dev(), there.ino())).then_some(Self(file)))
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(io::Error::from(error)).at("lock", folder),
        }
    }

    /// Waits until nobody else holds the lock, and takes it; `None` where the file system has none.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn wait(folder: &Path) -> Result<Option<Self>, Error> {
        let file = crate::open(folder)?;
        loop {
            match rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Some(Self(file))),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uncommitted_file_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.bin");
        write_atomic(&target, b"old").unwrap();
        let mut file = AtomicFile::create(&target).unwrap();
        file.write_all(b"new").unwrap();
        drop(file);
        assert_eq!(std::fs::read(&target).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn new_folders_go_when_nothing_was_put_in_and_others_stay() {
        let parent = tempfile::tempdir().unwrap();
        let inner = parent.path().join("was/new/inner");
        std::fs::create_dir(parent.path().join("was")).unwrap();
        let beside = parent.path().join("was/new/beside");
        drop(NewFolders::create([inner.as_path(), &beside]).unwrap());
        assert!(parent.path().join("was").exists() && !parent.path().join("was/new").exists());
        let new = NewFolders::create([inner.as_path()]).unwrap();
        std::fs::write(parent.path().join("was/new/file"), "").unwrap();
        drop(new);
        assert!(parent.path().join("was/new/file").exists() && !inner.exists());
    }

    #[test]
    fn a_folder_replaces_one_that_is_not_empty() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("bundle");
        for text in ["one", "two"] {
            let new = TempFolder::beside(&target).unwrap();
            std::fs::write(new.path().join("file"), text).unwrap();
            replace_folder(new, &target).unwrap();
            assert_eq!(std::fs::read_to_string(target.join("file")).unwrap(), text);
        }
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1);
    }
}
