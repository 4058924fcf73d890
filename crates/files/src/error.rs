//! The one error of file access.

use std::io;
use std::path::{Path, PathBuf};

/// An I/O error with what was tried and on which path.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`", path.display())]
pub struct Error {
    /// What was tried: `read`, `create`, `rename`, …
    pub action: &'static str,
    /// On which path.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

impl Error {
    /// An error of `action` on `path`.
    pub fn new(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self { action, path: path.to_owned(), source }
    }

    /// Whether the path does not exist.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// Attaches action and path to an `io::Result`.
pub(crate) trait Context<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, Error>;
}

impl<T> Context<T> for io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::new(action, path, source))
    }
}
