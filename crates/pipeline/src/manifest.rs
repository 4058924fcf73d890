//! `manifest.json`: every file of a bundle with size and hash, and the full recipe of every artifact.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plansmith_files::Digest;
use plansmith_lowering::{Float, Target};
use plansmith_verify::Oracle;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::provenance::{PROVENANCE_NAME, SIGNATURE_NAME};

/// The manifest's file name.
pub const MANIFEST_NAME: &str = "manifest.json";

/// Version of the layout.
const SCHEMA_VERSION: u32 = 1;

/// What a bundle is and where it came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// 1.
    pub schema_version: u32,
    /// SHA-256 of this file as it would be with 64 zeros here.
    pub self_sha256: Digest,
    /// The pipeline's `name`.
    pub name: String,
    /// Version, commit and target of the plansmith that wrote it.
    pub plansmith: String,
    /// What determines the bundle's bytes: a build with the same recipe has nothing to do.
    pub recipe: Digest,
    /// The checkpoint.
    pub source: SourceRecord,
    /// The graphs.
    pub graphs: Vec<GraphRecord>,
    /// The plans.
    pub plans: Vec<PlanRecord>,
    /// What the verdict is and whose logits proved it.
    pub verdict: VerdictRecord,
    /// Every other file, by path within the bundle.
    pub files: BTreeMap<String, FileRecord>,
}

/// The checkpoint that a bundle was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRecord {
    /// As the pipeline names it.
    pub checkpoint: String,
    /// Revision, where the pipeline pins one.
    pub revision: Option<String>,
    /// `model_type` of its config.
    pub model_type: String,
    /// SHA-256 of config.json and of every weight file.
    pub sha256: BTreeMap<String, Digest>,
    /// Config keys that were ignored on the user's word.
    pub allow_unknown_config: Vec<String>,
    /// Longest sequence that the user said will be run, which chose the side of rotations that change with the length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    /// Total length beyond which every rotation changes: a cache that was filled below it is no use above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_length: Option<u64>,
}

/// One graph's recipe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphRecord {
    /// As the pipeline names it; with `-tensorrt` for the variant that plans are built from.
    pub id: String,
    /// Path within the bundle.
    pub path: String,
    /// Weight files, within the bundle.
    pub weights: Vec<String>,
    /// What lowering was asked for.
    pub target: Target,
    /// How most weights are stored.
    pub storage: Float,
    /// What the graph computes in.
    pub compute: Float,
    /// ONNX operator set.
    pub opset: u32,
    /// The cache key: graph, but for plansmith's version, and weights.
    pub recipe: Digest,
}

/// One plan's recipe; the plan's own manifest beside it says more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRecord {
    /// Path within the bundle.
    pub path: String,
    /// Path of the graph that it was built from, within the bundle.
    pub from: String,
    /// GPU architecture.
    pub architecture: String,
    /// Profile name.
    pub profile: String,
    /// The cache key: graph, weights, profile, architecture, libraries.
    pub recipe: Digest,
}

/// The verdict in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictRecord {
    /// `agree`, or `disagree` in a failed bundle.
    pub verdict: String,
    /// Whose logits proved it.
    pub oracle: Oracle,
    /// Artifacts that were executed.
    pub executed: usize,
    /// Artifacts that this host could not execute.
    pub not_executed: Vec<String>,
}

/// A file's size and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: Digest,
}

impl Manifest {
    /// The bytes of the file, with its own digest in place.
    ///
    /// # Errors
    /// It cannot be serialised.
    pub fn seal(&mut self) -> Result<Vec<u8>, Error> {
        self.self_sha256 = self.digest_without_self()?;
        self.to_bytes()
    }

    fn digest_without_self(&self) -> Result<Digest, Error> {
        let zeros: Digest =
            "0".repeat(64).parse().map_err(|error| Error::Manifest { path: MANIFEST_NAME.into(), problem: format!("{error}") })?;
        Ok(Digest::of(&Self { self_sha256: zeros, ..self.clone() }.to_bytes()?))
    }

    fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let text = serde_json::to_string_pretty(self);
        let mut text = text.map_err(|error| Error::Manifest { path: MANIFEST_NAME.into(), problem: error.to_string() })?;
        text.push('\n');
        Ok(text.into_bytes())
    }

    /// Reads a manifest and checks it against itself: it is written as we write it, and its own digest is right.
    ///
    /// # Errors
    /// It cannot be read, is of another version, or was changed.
    pub fn read(bundle: &Path) -> Result<(Self, Digest), Error> {
        let path = bundle.join(MANIFEST_NAME);
        let problem = |problem: String| Error::Manifest { path: path.clone(), problem };
        let bytes = plansmith_files::read(&path).map_err(|error| match error.is_not_found() {
            true => problem("is not there: this is no bundle".into()),
            false => error.into(),
        })?;
        let manifest: Self = serde_json::from_slice(&bytes).map_err(|error| problem(format!("is no manifest: {error}")))?;
        if manifest.schema_version != SCHEMA_VERSION {
            return Err(problem(format!("has schema_version {}; this plansmith reads {SCHEMA_VERSION}", manifest.schema_version)));
        }
        if manifest.to_bytes()? != bytes || manifest.digest_without_self()? != manifest.self_sha256 {
            return Err(problem("was changed after it was written: it does not match its own digest".into()));
        }
        Ok((manifest, Digest::of(&bytes)))
    }

    /// A manifest of this version without files.
    pub(crate) fn new(name: String, plansmith: String, recipe: Digest, source: SourceRecord, verdict: VerdictRecord) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            self_sha256: Digest::of(b""),
            name,
            plansmith,
            recipe,
            source,
            graphs: Vec::new(),
            plans: Vec::new(),
            verdict,
            files: BTreeMap::new(),
        }
    }
}

/// Every regular file below `folder` but the manifest and what is said about it, by path within it, sorted.
///
/// # Errors
/// Something below is neither a folder nor a regular file: a bundle holds no links.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for path in plansmith_files::list(&next)? {
            let kind = path.symlink_metadata().map_err(|error| plansmith_files::Error::new("examine", &path, error))?.file_type();
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
                if ![MANIFEST_NAME, PROVENANCE_NAME, SIGNATURE_NAME].contains(&name.as_str()) {
                    files.push((name, path));
                }
            } else {
                return Err(Error::Manifest { path, problem: "is a link or a special file, which a bundle does not hold".into() });
            }
        }
    }
    files.sort();
    Ok(files)
}
