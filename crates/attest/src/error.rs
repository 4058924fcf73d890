//! What is wrong with a key, a signature or a statement.

use std::path::PathBuf;

/// Names the file and what is wrong with it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key.
    #[error("`{}` is no ed25519 {kind} key in PEM: {problem}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// `secret` or `public`.
        kind: &'static str,
        /// What the parser says.
        problem: String,
    },
    /// A key is there already.
    #[error("`{}` is there already", path.display())]
    KeyExists {
        /// The file.
        path: PathBuf,
    },
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
    /// An envelope.
    #[error("`{}` is no DSSE envelope: {problem}", path.display())]
    Envelope {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A signature.
    #[error("no signature in `{}` is of the key with the fingerprint {fingerprint}", path.display())]
    Signature {
        /// The envelope.
        path: PathBuf,
        /// SHA-256 of the public key.
        fingerprint: String,
    },
    /// A statement.
    #[error("`{}` {problem}", path.display())]
    Statement {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] plansmith_files::Error),
}

impl Error {
    /// The next step.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Key { kind: "secret", .. } => {
                "make one with `plansmith sign --new-key FILE`, or `openssl genpkey -algorithm ed25519 -out FILE`".to_owned()
            }
            Self::Key { .. } => "it is written beside the secret key as FILE.pub; `openssl pkey -in KEY -pubout` prints it too".to_owned(),
            Self::KeyExists { .. } => "a key is never replaced: name another file".to_owned(),
            Self::Envelope { .. } | Self::Statement { .. } => "build or sign the bundle anew".to_owned(),
            Self::Signature { .. } => "the bundle was changed after it was signed, or somebody else signed it: do not use it".to_owned(),
            Self::Random(_) | Self::File(_) => return None,
        })
    }
}
