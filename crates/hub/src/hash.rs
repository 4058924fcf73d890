//! The two hashes of a hub's listing: SHA-256 of large files, and git's own of small ones.

use std::fmt;

use plansmith_files::{Digest, Hasher};
use sha1::{Digest as _, Sha1};

/// What a file's bytes should hash to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RemoteHash {
    /// Of the bytes.
    Sha256(Digest),
    /// SHA-1 of `blob`, the length and the bytes; 40 hex digits.
    Git(String),
}

impl RemoteHash {
    /// The hub's name of a blob with this hash.
    pub(crate) fn hex(&self) -> String {
        match self {
            Self::Sha256(digest) => digest.to_string(),
            Self::Git(hex) => hex.clone(),
        }
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

/// Hashes a file as it comes: always SHA-256, for the record, and git's where the listing has that.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    sha256: Hasher,
    git: Option<Sha1>,
}

impl Running {
    /// For a file of `size` bytes that should have `wanted`.
    pub(crate) fn new(wanted: &RemoteHash, size: u64) -> Self {
        let git = matches!(wanted, RemoteHash::Git(_)).then(|| Sha1::new_with_prefix(format!("blob {size}\0")));
        Self { sha256: Hasher::default(), git }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        if let Some(git) = &mut self.git {
            git.update(bytes);
        }
    }

    /// The hash to compare, and SHA-256.
    pub(crate) fn finish(self) -> (RemoteHash, Digest) {
        let sha256 = self.sha256.finish();
        let hex = |git: Sha1| git.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        (self.git.map_or(RemoteHash::Sha256(sha256), |git| RemoteHash::Git(hex(git))), sha256)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_s_hash_is_git_s() {
        // printf 'hello\n' | git hash-object --stdin
        let wanted = RemoteHash::Git("ce013625030ba8dba906f756967f9e9ca394464a".to_owned());
        let mut running = Running::new(&wanted, 6);
        running.update(b"hel");
        running.update(b"lo\n");
        assert_eq!(running.finish().0, wanted);
    }
}
