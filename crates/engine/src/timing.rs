//! What the builder of the enterprise flavour measured on its GPU, kept for the next build.
//!
//! The worker gets a copy in a memory file and leaves the new cache there; the file itself is replaced by the client, whole or not at all.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use plansmith_files::Digest;
use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

use crate::protocol::{AlienTimings, BuiltTimings, Greeting};
use crate::{Error, Flavor};

/// Where timings are taken from and left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TimingCache {
    /// A file for each GPU and library in the cache folder; what is of no use there is replaced.
    #[default]
    Usual,
    /// A file that somebody named; what is none for this GPU and library is refused.
    File(PathBuf),
    /// Nowhere: everything is measured anew.
    Off,
}

/// How flags and pipeline files spell [`TimingCache::Off`].
const OFF: &str = "off";

impl TimingCache {
    /// `off`, or a file.
    pub fn named(path: &Path) -> Self {
        if path == Path::new(OFF) { Self::Off } else { Self::File(path.to_owned()) }
    }

    /// The file that somebody named.
    pub fn file(self) -> Option<PathBuf> {
        match self {
            Self::File(path) => Some(path),
            Self::Usual | Self::Off => None,
        }
    }

    /// Refuses a file where the builder measures nothing.
    ///
    /// # Errors
    /// [`Error::TimingCache`]: the flavour is rtx.
    pub fn check(&self, flavor: Flavor) -> Result<(), Error> {
        match (self, flavor) {
            (Self::File(path), Flavor::Rtx) => Err(Error::TimingCache {
                path: path.clone(),
                reason: "TensorRT-RTX builds without a GPU and measures nothing, so it has no timings to keep".to_owned(),
                log: Vec::new(),
                hint: "leave the timing cache out, or build with the enterprise flavour, on its GPU",
            }),
            _ => Ok(()),
        }
    }

    /// The file, as it is now, for a worker that greeted so; `None` where there is to be none.
    pub(crate) fn open(&self, flavor: Flavor, greeting: &Greeting) -> Result<Option<Timings>, Error> {
        self.check(flavor)?;
        let (path, alien) = match (self, flavor, &greeting.gpu) {
            (Self::File(path), ..) => (path.clone(), AlienTimings::Refuse),
            (Self::Usual, Flavor::Enterprise, Some(gpu)) => match plansmith_files::cache_folder() {
                Some(folder) => {
                    let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "_");
                    let name = format!("{}-{}-{}.timings", greeting.library.version, plain(&gpu.name), plain(&gpu.compute));
                    (folder.join("timings").join(name), AlienTimings::Replace)
                }
                None => return Ok(None),
            },
            (Self::Usual | Self::Off, ..) => return Ok(None),
        };
        Timings::read(path, alien).map(Some)
    }
}

/// What is known of the timings that a plan was built with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimingRecord {
    /// SHA-256 of the cache that the builder began with; absent where it began with none.
    pub read: Option<Digest>,
    /// SHA-256 of the cache that it left.
    pub written: Digest,
    /// Why a cache that was there was not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Why what it left was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
}

/// A timing cache on its way to a worker and back.
#[derive(Debug)]
pub(crate) struct Timings {
    path: PathBuf,
    /// What the worker is to do with timings that are not for it.
    pub(crate) alien: AlienTimings,
    /// What the worker reads and then replaces.
    pub(crate) memory: File,
    read: Option<Digest>,
}

impl Timings {
    fn read(path: PathBuf, alien: AlienTimings) -> Result<Self, Error> {
        let bytes = match (plansmith_files::metadata(&path), alien) {
            (Ok(metadata), _) if metadata.is_file() => plansmith_files::read(&path),
            (Ok(_), _) => return Err(refused(&path, "is no file".to_owned(), Vec::new())),
            (Err(error), _) if error.is_not_found() => Ok(Vec::new()),
            (Err(error), _) => Err(error),
        };
        let bytes = match (bytes, alien) {
            (Ok(bytes), _) => bytes,
            // What cannot be read where nobody named it is measured again.
            (Err(_), AlienTimings::Replace) => Vec::new(),
            (Err(error), AlienTimings::Refuse) => return Err(error.into()),
        };
        let system = |error: std::io::Error| Error::Protocol(format!("no memory file for timings: {error}"));
        let memory = rustix::fs::memfd_create("plansmith-timings", MemfdFlags::CLOEXEC).map_err(|error| system(error.into()))?;
        let mut memory = File::from(memory);
        memory.write_all(&bytes).map_err(system)?;
        let read = (!bytes.is_empty()).then(|| Digest::of(&bytes));
        if alien == AlienTimings::Refuse {
            // Measuring takes minutes: a place that cannot be written to is told before.
            in_its_folder(&path, || plansmith_files::AtomicFile::create(&path).map(drop))?;
        }
        Ok(Self { path, alien, memory, read })
    }

    /// Puts what the worker left where the next build finds it.
    pub(crate) fn keep(&self, built: &BuiltTimings) -> Result<TimingRecord, Error> {
        let broken = |what: String| Error::Protocol(format!("timings: {what}"));
        let length = self.memory.metadata().map_err(|error| broken(error.to_string()))?.len();
        let mut bytes = vec![0; usize::try_from(length).map_err(|error| broken(error.to_string()))?];
        self.memory.read_exact_at(&mut bytes, 0).map_err(|error| broken(error.to_string()))?;
        let written = Digest::of(&bytes);
        if (bytes.len() as u64, written) != (built.bytes, built.sha256) {
            return Err(broken(format!("{} bytes of {written} came; the worker says {} of {}", bytes.len(), built.bytes, built.sha256)));
        }
        let kept = in_its_folder(&self.path, || plansmith_files::write_atomic(&self.path, &bytes));
        let read = self.read.filter(|_| built.refused.is_none());
        // Where it was to lie says something of this machine only, and manifests travel.
        let cause =
            |error: plansmith_files::Error| std::error::Error::source(&error).map_or_else(|| error.to_string(), |cause| cause.to_string());
        Ok(TimingRecord { read, written, refused: built.refused.clone(), not_kept: kept.err().map(cause) })
    }

    /// That the library refuses them; the worker does not know the file.
    pub(crate) fn blame(&self, reason: String, log: Vec<String>) -> Error {
        refused(&self.path, reason, log)
    }
}

fn refused(path: &Path, reason: String, log: Vec<String>) -> Error {
    let hint = "remove it, or name another: the build writes it anew";
    Error::TimingCache { path: path.to_owned(), reason, log, hint }
}

/// Does something with `path` once its folder is there.
fn in_its_folder(path: &Path, act: impl FnOnce() -> Result<(), plansmith_files::Error>) -> Result<(), plansmith_files::Error> {
    plansmith_files::create_dir_all(plansmith_files::folder_of(path))?;
    act()
}
