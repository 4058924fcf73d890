//! Where fetched files go.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::listing::RemoteFile;
use crate::{Address, Error, home};

/// Below a folder that was fetched into: what the hub's own client keeps there.
const RECORDS: &str = ".cache/huggingface/download";

/// Below such a folder: the repository that it was fetched from. The hub's own client has no place for that.
const REPOSITORY: &str = ".cache/huggingface/plansmith-repository";

/// Where files go.
#[derive(Debug, Clone)]
pub enum Place {
    /// The repository's folder in the hub's cache: bytes in `blobs`, named by their hash; `snapshots/COMMIT` links to them.
    Cache(PathBuf),
    /// Plain files in a folder; `.cache/huggingface` below it says of which commit they are.
    Folder(PathBuf),
}

impl Place {
    /// The folder of `address` in the hub's cache: `$HF_HUB_CACHE`, else `$HF_HOME/hub`, else `~/.cache/huggingface/hub`.
    ///
    /// # Errors
    /// There is neither.
    pub fn cache(address: &Address) -> Result<Self, Error> {
        let cache = home::cache().ok_or_else(|| Error::Repository {
            address: address.to_string(),
            problem: "has no place: neither HF_HOME nor HOME is set; name a folder with -o".to_owned(),
        })?;
        Ok(Self::Cache(cache.join(format!("models--{}", address.repository.replace('/', "--")))))
    }

    /// The folder that a checkpoint of `commit` is read from.
    pub(crate) fn checkpoint(&self, commit: &str) -> PathBuf {
        match self {
            Self::Cache(folder) => folder.join("snapshots").join(commit),
            Self::Folder(folder) => folder.clone(),
        }
    }

    /// The folder whose lock keeps others out.
    pub(crate) fn work(&self) -> PathBuf {
        match self {
            Self::Cache(folder) => folder.join("blobs"),
            Self::Folder(folder) => folder.join(RECORDS),
        }
    }

    /// Where a file's bytes lie when they are complete.
    pub(crate) fn bytes(&self, file: &RemoteFile) -> PathBuf {
        match self {
            Self::Cache(_) => self.work().join(file.hash.hex()),
            Self::Folder(folder) => folder.join(&file.name),
        }
    }

    /// Where they lie before that.
    pub(crate) fn partial(&self, file: &RemoteFile) -> PathBuf {
        match self {
            Self::Cache(_) => self.work().join(format!("{}.incomplete", file.hash.hex())),
            Self::Folder(_) => self.work().join(format!("{}.{}.incomplete", file.name, file.hash.hex())),
        }
    }

    /// The record of a file: commit, hash and time, a line each.
    pub(crate) fn record(&self, name: &str) -> PathBuf {
        self.work().join(format!("{name}.metadata"))
    }

    /// Says in the cache which commit a branch or tag was, as the hub's own client does.
    pub(crate) fn remember(&self, name: &str, commit: &str) -> Result<(), Error> {
        let Self::Cache(folder) = self else { return Ok(()) };
        let path = folder.join("refs").join(name);
        plansmith_files::create_dir_all(path.parent().unwrap_or(folder))?;
        Ok(plansmith_files::write_atomic(&path, commit.as_bytes())?)
    }

    /// Says beside a plain folder of which repository it is; a folder of the cache has its name from it.
    pub(crate) fn name(&self, repository: &str) -> Result<(), Error> {
        let Self::Folder(folder) = self else { return Ok(()) };
        Ok(plansmith_files::write_atomic(&folder.join(REPOSITORY), format!("{repository}\n").as_bytes())?)
    }

    /// The repository that a plain folder was fetched from, where something says so.
    pub(crate) fn named(&self) -> Option<String> {
        let Self::Folder(folder) = self else { return None };
        Some(plansmith_files::read_to_string(&folder.join(REPOSITORY)).ok()?.trim().to_owned())
    }

    /// Gives complete bytes their name and says of which commit they are.
    pub(crate) fn settle(&self, file: &RemoteFile, commit: &str) -> Result<(), Error> {
        match self {
            Self::Cache(_) => {
                let snapshot = self.checkpoint(commit);
                plansmith_files::create_dir_all(&snapshot)?;
                let target = Path::new("../../blobs").join(file.hash.hex());
                Ok(plansmith_files::symlink(&target, &snapshot.join(&file.name))?)
            }
            Self::Folder(_) => {
                let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
                let record = format!("{commit}\n{}\n{seconds}\n", file.hash.hex());
                Ok(plansmith_files::write_atomic(&self.record(&file.name), record.as_bytes())?)
            }
        }
    }
}
