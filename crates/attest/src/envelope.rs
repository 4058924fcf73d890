//! DSSE: a payload with its type, and signatures over both.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::{Error, SecretKey, VerifyingKey};

/// The type of an in-toto statement.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// A signed payload. Source: DSSE 1.0, `envelope.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Envelope {
    payload_type: String,
    payload: String,
    signatures: Vec<Signed>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    keyid: String,
    sig: String,
}

impl Envelope {
    /// Signs the bytes of a statement.
    pub fn sign(statement: &[u8], key: &SecretKey) -> Self {
        let signature = key.sign(&encoding(PAYLOAD_TYPE, statement));
        let signed = Signed { keyid: key.verifying().fingerprint().to_string(), sig: STANDARD.encode(signature) };
        Self { payload_type: PAYLOAD_TYPE.to_owned(), payload: STANDARD.encode(statement), signatures: vec![signed] }
    }

    /// The bytes of its file.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Texts in a struct: nothing here can fail to serialise.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text.into_bytes()
    }

    /// Reads an envelope with a statement, written exactly as [`Envelope::to_bytes`] does: a signature does not cover its own spelling.
    ///
    /// # Errors
    /// The file cannot be read or is no such envelope.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = plansmith_files::read(path)?;
        let wrong = |problem: String| Error::Envelope { path: path.to_owned(), problem };
        let envelope: Self = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if envelope.payload_type != PAYLOAD_TYPE {
            return Err(wrong(format!("it holds `{}`; `{PAYLOAD_TYPE}` is wanted", envelope.payload_type)));
        }
        if envelope.to_bytes() != bytes {
            return Err(wrong("it was changed after it was written".to_owned()));
        }
        Ok(envelope)
    }

    /// The statement's bytes, where one of the signatures is of `key`; `path` is named in errors.
    ///
    /// # Errors
    /// None is, or the payload is no base64.
    pub fn open(&self, path: &Path, key: &VerifyingKey) -> Result<Vec<u8>, Error> {
        let payload = self.payload(path)?;
        let message = encoding(&self.payload_type, &payload);
        let right = |signed: &Signed| {
            // The name of the key is no proof, but a wrong one is a change.
            signed.keyid == key.fingerprint().to_string()
                && STANDARD.decode(&signed.sig).is_ok_and(|signature| key.accepts(&message, &signature))
        };
        if self.signatures.iter().any(right) {
            Ok(payload)
        } else {
            Err(Error::Signature { path: path.to_owned(), fingerprint: key.fingerprint().to_string() })
        }
    }

    /// The statement's bytes, whoever signed them.
    ///
    /// # Errors
    /// The payload is no base64.
    pub fn payload(&self, path: &Path) -> Result<Vec<u8>, Error> {
        STANDARD.decode(&self.payload).map_err(|error| Error::Envelope { path: path.to_owned(), problem: format!("its payload: {error}") })
    }
}

/// What is signed: DSSE's pre-authentication encoding.
fn encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_is_that_of_the_protocol() {
        // The example of DSSE's `protocol.md`.
        assert_eq!(encoding("http://example.com/HelloWorld", b"hello world"), b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }

    /// `openssl genpkey -algorithm ed25519`, then `openssl pkeyutl -sign -rawin` over the encoding of `{}`: ed25519 gives one signature only.
    #[test]
    fn openssl_signs_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let secret =
            "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIKyy3eWZw9UH4enBSb3KRhN7/SlZsg4uQcEtQnUaVjiG\n-----END PRIVATE KEY-----\n";
        let public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA/w+Kz+cmxFF+yHa2HR7GHSzc/61LozMSCECOP/CkFgQ=\n-----END PUBLIC KEY-----\n";
        let (secret, public) = (path("k.pem", secret), path("k.pub", public));
        let key = SecretKey::read(&secret).unwrap();
        assert_eq!(key.verifying(), VerifyingKey::read(&public).unwrap());
        assert_eq!(key.verifying().fingerprint().to_string(), "944ae34f59e28efbc0c1415922130a881a774846bab8f0e0dd02c499da0ffaff");
        let envelope = Envelope::sign(b"{}", &key);
        let signature = "lu8zZV0X3q4Gjd04MnRzqMdEN27l2LliqaFpfCOuEsVioKXsdcyfq3Hma1Y8hcg3MSglIsy29K3qDQkmKwlODg==";
        assert_eq!(envelope.signatures[0].sig, signature);
        assert!(SecretKey::read(&public).is_err() && VerifyingKey::read(&secret).is_err());
        assert!(SecretKey::read(&path("none.pem", "")).unwrap_err().hint().is_some());
    }

    #[test]
    fn only_the_key_that_signed_opens_and_no_byte_may_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bundle.dsse.json");
        let (key, _) = SecretKey::create(&folder.path().join("a")).unwrap();
        let (other, _) = SecretKey::create(&folder.path().join("b")).unwrap();
        let bytes = Envelope::sign(b"{}", &key).to_bytes();
        std::fs::write(&path, &bytes).unwrap();
        let envelope = Envelope::read(&path).unwrap();
        assert_eq!(envelope.open(&path, &key.verifying()).unwrap(), b"{}");
        assert!(matches!(envelope.open(&path, &other.verifying()), Err(Error::Signature { .. })));
        for index in 0..bytes.len() {
            for flip in [1, 0x20, 0x80] {
                let mut changed = bytes.clone();
                changed[index] ^= flip;
                std::fs::write(&path, &changed).unwrap();
                let opened = Envelope::read(&path).and_then(|envelope| envelope.open(&path, &key.verifying()));
                assert!(opened.is_err(), "byte {index} ^ {flip}: {}", String::from_utf8_lossy(&changed));
            }
        }
    }
}
