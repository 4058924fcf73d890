//! ed25519 keys in PEM: PKCS #8 and SubjectPublicKeyInfo, as OpenSSL writes them.

use std::fmt;
use std::path::{Path, PathBuf};

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _};
use ed25519_dalek::{Signature, Signer as _, SigningKey};
use plansmith_files::Digest;

use crate::Error;

/// Bytes of a key's file: one in PEM has some hundreds.
const MOST_BYTES: u64 = 1 << 16;

/// Signs.
pub struct SecretKey(SigningKey);

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.verifying().fingerprint())
    }
}

impl SecretKey {
    /// Reads a key that nobody else needs to know.
    ///
    /// # Errors
    /// The file cannot be read, or is no such key.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = plansmith_files::text(plansmith_files::read_stream(path, MOST_BYTES)?, path)?;
        let key = SigningKey::from_pkcs8_pem(&text);
        key.map(Self).map_err(|error| Error::Key { path: path.to_owned(), kind: "secret", problem: error.to_string() })
    }

    /// Makes a key and writes it to `path`, readable by its owner only, and its public half to `path` with `.pub` added, whose path is returned.
    ///
    /// # Errors
    /// One of the files is there already; the system gives no random bytes, or the files cannot be written.
    pub fn create(path: &Path) -> Result<(Self, PathBuf), Error> {
        let mut public = path.to_owned().into_os_string();
        public.push(".pub");
        let public = PathBuf::from(public);
        if let Some(path) = [path, &public].into_iter().find(|path| path.symlink_metadata().is_ok()) {
            return Err(Error::KeyExists { path: path.to_owned() });
        }
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| Error::Random(error.to_string()))?;
        let key = SigningKey::from_bytes(&seed);
        let wrong = |kind, problem: String| Error::Key { path: path.to_owned(), kind, problem };
        let secret = key.to_pkcs8_pem(LineEnding::LF).map_err(|error| wrong("secret", error.to_string()))?;
        plansmith_files::write_secret(path, secret.as_bytes())?;
        let text = key.verifying_key().to_public_key_pem(LineEnding::LF).map_err(|error| wrong("public", error.to_string()))?;
        if let Err(error) = plansmith_files::write_atomic(&public, text.as_bytes()) {
            // Nobody knows this key yet, and it would be in the way of the next one.
            plansmith_files::remove_file(path)?;
            return Err(error.into());
        }
        Ok((Self(key), public))
    }

    /// Its public half.
    pub fn verifying(&self) -> VerifyingKey {
        VerifyingKey(self.0.verifying_key())
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

/// Checks signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

impl VerifyingKey {
    /// Reads a public key.
    ///
    /// # Errors
    /// The file cannot be read, or is no such key.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = plansmith_files::text(plansmith_files::read_stream(path, MOST_BYTES)?, path)?;
        let key = ed25519_dalek::VerifyingKey::from_public_key_pem(&text);
        key.map(Self).map_err(|error| Error::Key { path: path.to_owned(), kind: "public", problem: error.to_string() })
    }

    /// SHA-256 of its 32 bytes: what people compare.
    pub fn fingerprint(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    /// Whether `signature` is this key's over `message`. Weak keys and malleable signatures count as wrong.
    pub(crate) fn accepts(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::from_slice(signature).is_ok_and(|signature| self.0.verify_strict(message, &signature).is_ok())
    }
}
