//! What to fetch: `ORG/NAME@COMMIT`.

use std::fmt;
use std::str::FromStr;

use plansmith_files::is_hex;

use crate::Error;

/// A repository and one state of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `ORG/NAME`.
    pub repository: String,
    /// Which state.
    pub revision: Revision,
}

/// One state of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revision {
    /// A commit: 40 hex digits, lower case. The same bytes for ever.
    Commit(String),
    /// A branch or tag, which may be moved.
    Moving(String),
}

impl Revision {
    /// As the hub's addresses hold it.
    pub fn name(&self) -> &str {
        let (Self::Commit(name) | Self::Moving(name)) = self;
        name
    }
}

impl FromStr for Address {
    type Err = Error;

    /// Without `@…` the branch `main` is meant.
    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = |why: &str| Error::Address { text: text.to_owned(), why: why.to_owned() };
        let (repository, revision) = text.split_once('@').unwrap_or((text, "main"));
        let part = |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(is_plain);
        match repository.split('/').collect::<Vec<_>>().as_slice() {
            [organisation, name] if part(organisation) && part(name) => {}
            [name] if part(name) => {}
            _ => return Err(refuse("a repository is ORG/NAME, of letters, digits, `-`, `_` and `.`")),
        }
        if !revision.split('/').all(part) {
            return Err(refuse("a revision is a commit of 40 hex digits, or the name of a branch or tag"));
        }
        let is_commit = is_hex(revision, 40);
        let revision = if is_commit { Revision::Commit(revision.to_ascii_lowercase()) } else { Revision::Moving(revision.to_owned()) };
        Ok(Self { repository: repository.to_owned(), revision })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.repository, self.revision.name())
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_told_from_a_branch() {
        let commit = "0123456789abcdef0123456789ABCDEF01234567";
        let address: Address = format!("org/name@{commit}").parse().unwrap();
        assert_eq!(address.revision, Revision::Commit(commit.to_lowercase()));
        assert_eq!("gpt2".parse::<Address>().unwrap().revision, Revision::Moving("main".to_owned()));
        assert_eq!("a/b@refs/pr/1".parse::<Address>().unwrap().revision, Revision::Moving("refs/pr/1".to_owned()));
    }

    #[test]
    fn what_would_lead_elsewhere_is_refused() {
        for text in ["", "/", "a/b/c", "../b", "a/..", "a/b@", "a/b@../x", "a b/c", "a/b?x", "a/b@x#y", "a/b@%2e"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
