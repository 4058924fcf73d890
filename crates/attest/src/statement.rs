//! in-toto statements with SLSA provenance. Source: in-toto Attestation Framework 1.0, SLSA 1.0 `provenance`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use plansmith_files::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;

const TYPE: &str = "https://in-toto.io/Statement/v1";
const PREDICATE_TYPE: &str = "https://slsa.dev/provenance/v1";
const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// How files were made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    /// The files.
    pub subject: Vec<Resource>,
    predicate_type: String,
    /// How they were made.
    pub predicate: Provenance,
}

/// A file by name and hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// Path or name.
    pub name: String,
    /// `sha256`, or `gitCommit`.
    pub digest: BTreeMap<String, String>,
}

/// SLSA's predicate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provenance {
    /// What determines the files.
    pub build_definition: BuildDefinition,
    /// What happened when they were made.
    pub run_details: RunDetails,
}

/// What determines the files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BuildDefinition {
    /// Whose parameters these are.
    pub build_type: String,
    /// What the user asked for.
    pub external_parameters: Value,
    /// What the user did not set.
    pub internal_parameters: Value,
    /// What went in.
    pub resolved_dependencies: Vec<Resource>,
}

/// What happened when the files were made: another run differs here only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunDetails {
    /// Who made them.
    pub builder: Builder,
    /// When.
    pub metadata: Metadata,
    /// This statement itself, hashed as if its digest here were zeros: what notices a changed byte where nothing is signed.
    pub byproducts: Vec<Resource>,
}

/// Who made them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Builder {
    /// A name that stands for the trust in the machine.
    pub id: String,
    /// Programs and their versions.
    pub version: BTreeMap<String, String>,
}

/// When.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// RFC 3339.
    pub started_on: String,
    /// RFC 3339.
    pub finished_on: String,
}

impl Resource {
    /// A file with its SHA-256.
    pub fn file(name: &str, sha256: Digest) -> Self {
        Self { name: name.to_owned(), digest: BTreeMap::from([("sha256".to_owned(), sha256.to_string())]) }
    }
}

impl Statement {
    /// A statement about `subject`.
    pub fn new(subject: Vec<Resource>, predicate: Provenance) -> Self {
        Self { kind: TYPE.to_owned(), subject, predicate_type: PREDICATE_TYPE.to_owned(), predicate }
    }

    /// The bytes of its file, with its own digest among the by-products under `name`.
    pub fn seal(&mut self, name: &str) -> Vec<u8> {
        self.set_own(name, ZEROS);
        let own = Digest::of(&self.to_bytes()).to_string();
        self.set_own(name, &own);
        self.to_bytes()
    }

    /// Reads a statement and checks it against its own digest.
    ///
    /// # Errors
    /// It cannot be read, is no statement of this kind, or was changed.
    pub fn read(path: &Path) -> Result<(Self, Vec<u8>), Error> {
        let bytes = plansmith_files::read(path)?;
        let wrong = |problem: String| Error::Statement { path: path.to_owned(), problem };
        let mut statement: Self = serde_json::from_slice(&bytes).map_err(|error| wrong(format!("is no in-toto statement: {error}")))?;
        if (statement.kind.as_str(), statement.predicate_type.as_str()) != (TYPE, PREDICATE_TYPE) {
            return Err(wrong(format!("is a `{}` with `{}`; provenance is wanted", statement.kind, statement.predicate_type)));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let read = statement.clone();
        if statement.seal(&name) != bytes {
            return Err(wrong("was changed after it was written: it does not match its own digest".to_owned()));
        }
        Ok((read, bytes))
    }

    fn set_own(&mut self, name: &str, sha256: &str) {
        let own = Resource { name: name.to_owned(), digest: BTreeMap::from([("sha256".to_owned(), sha256.to_owned())]) };
        self.predicate.run_details.byproducts = vec![own];
    }

    fn to_bytes(&self) -> Vec<u8> {
        // Texts, maps with text keys and JSON values: nothing here can fail to serialise.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text.into_bytes()
    }
}

/// A time to the second, in UTC.
pub fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}
