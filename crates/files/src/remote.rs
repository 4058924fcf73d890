//! The two hashes by which a hub names files: SHA-256 of large ones, and git's own of small ones.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use sha1::{Digest as _, Sha1};

use crate::{Digest, Error, Hasher, for_each_piece};

/// What a file's bytes should hash to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteHash {
    /// Of the bytes.
    Sha256(Digest),
    /// SHA-1 of `blob`, the length and the bytes, as git has it; 40 lower-case hex digits.
    Git(String),
}

/// A text that is neither hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a SHA-256 of 64 hex digits nor a git hash of 40")]
pub struct ParseRemoteHashError(String);

impl RemoteHash {
    /// The hub's name of a blob with this hash.
    pub fn hex(&self) -> String {
        match self {
            Self::Sha256(digest) => digest.to_string(),
            Self::Git(hex) => hex.clone(),
        }
    }

    /// Whether the file at `path` hashes to this, and its SHA-256. The file is streamed.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_of(&self, path: &Path) -> Result<(bool, Digest), Error> {
        let mut hasher = RemoteHasher::new(self, crate::metadata(path)?.len());
        for_each_piece(&mut crate::open_regular(path)?, path, |piece| hasher.update(piece))?;
        let (found, sha256) = hasher.finish();
        Ok((found == *self, sha256))
    }
}

impl fmt::Display for RemoteHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Sha256(_) => "the SHA-256",
            Self::Git(_) => "the git blob hash",
        };
        write!(f, "{kind} {}", self.hex())
    }
}

impl FromStr for RemoteHash {
    type Err = ParseRemoteHashError;

    fn from_str(text: &str) -> Result<Self, ParseRemoteHashError> {
        match text.parse() {
            Ok(digest) => Ok(Self::Sha256(digest)),
            Err(_) if is_hex(text, 40) => Ok(Self::Git(text.to_ascii_lowercase())),
            Err(_) => Err(ParseRemoteHashError(text.to_owned())),
        }
    }
}

/// Whether a text is so many hex digits, of either case: 40 name a commit or what git hashed.
pub fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Hashes a file as it comes: always SHA-256, for the record, and git's where that is wanted.
#[derive(Debug, Clone)]
pub struct RemoteHasher {
    sha256: Hasher,
    git: Option<Sha1>,
}

impl RemoteHasher {
    /// For a file of `size` bytes that should have `wanted`.
    pub fn new(wanted: &RemoteHash, size: u64) -> Self {
        let git = matches!(wanted, RemoteHash::Git(_)).then(|| Sha1::new_with_prefix(format!("blob {size}\0")));
        Self { sha256: Hasher::default(), git }
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        if let Some(git) = &mut self.git {
            git.update(bytes);
        }
    }

    /// The hash to compare, and SHA-256.
    pub fn finish(self) -> (RemoteHash, Digest) {
        let sha256 = self.sha256.finish();
        let hex = |git: Sha1| git.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        (self.git.map_or(RemoteHash::Sha256(sha256), |git| RemoteHash::Git(hex(git))), sha256)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// printf 'hello\n' | git hash-object --stdin
    const HELLO: &str = "ce013625030ba8dba906f756967f9e9ca394464a";

    #[test]
    fn git_s_hash_is_git_s() {
        let wanted: RemoteHash = HELLO.to_uppercase().parse().unwrap();
        assert_eq!(wanted, RemoteHash::Git(HELLO.to_owned()));
        let mut hasher = RemoteHasher::new(&wanted, 6);
        hasher.update(b"hel");
        hasher.update(b"lo\n");
        assert_eq!(hasher.finish().0, wanted);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "hello\n").unwrap();
        assert!(wanted.is_of(&path).unwrap().0);
        std::fs::write(&path, "hallo\n").unwrap();
        assert!(!wanted.is_of(&path).unwrap().0);
    }

    #[test]
    fn a_text_is_one_hash_or_the_other_or_none() {
        let sha256 = crate::Digest::of(b"hello\n");
        assert_eq!(sha256.to_string().parse(), Ok(RemoteHash::Sha256(sha256)));
        for text in ["", &HELLO[1..], "ge013625030ba8dba906f756967f9e9ca394464a"] {
            assert_eq!(text.parse::<RemoteHash>().unwrap_err(), ParseRemoteHashError(text.to_owned()));
        }
    }
}
