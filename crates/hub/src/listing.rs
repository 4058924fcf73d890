//! What a repository holds, and which of it a checkpoint is.

use std::collections::BTreeSet;

use plansmith_files::{Digest, RemoteHash, is_hex};
use serde::Deserialize;

use crate::{Address, Error, Revision};

/// Files beside the weights that say something about the model or its text. Read where they are there.
const COMPANIONS: [&str; 14] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    INDEX,
    "LICENSE",
];
const INDEX: &str = "model.safetensors.index.json";
const WEIGHTS: &str = "model.safetensors";

/// One file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteFile {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) hash: RemoteHash,
}

/// The files of a repository at one commit.
#[derive(Debug)]
pub(crate) struct Listing {
    /// 40 hex digits.
    pub(crate) commit: String,
    files: Vec<RemoteFile>,
}

#[derive(Deserialize)]
struct Info {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: String,
    size: u64,
}

#[derive(Deserialize)]
struct Index {
    weight_map: std::collections::BTreeMap<String, String>,
}

impl Listing {
    /// Reads the hub's answer about `address`. Files in folders are left out.
    pub(crate) fn read(address: &Address, url: &str, answer: &[u8]) -> Result<Self, Error> {
        let wrong = |problem: String| Error::Answer { url: url.to_owned(), problem };
        let info: Info = serde_json::from_slice(answer).map_err(|error| wrong(format!("is no listing of a repository: {error}")))?;
        if !is_hex(&info.sha, 40) {
            return Err(wrong(format!("names the commit `{}`; 40 hex digits are wanted", info.sha)));
        }
        if let Revision::Commit(commit) = &address.revision
            && *commit != info.sha
        {
            return Err(wrong(format!("is the listing of commit {}; {commit} was asked for", info.sha)));
        }
        let plain = info.siblings.into_iter().filter(|sibling| !sibling.rfilename.contains(['/', '\\', '\0']));
        let files = plain.map(|sibling| sibling.file().map_err(wrong)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { commit: info.sha, files })
    }

    /// A listing that was not asked for.
    pub(crate) fn of(commit: &str, files: Vec<RemoteFile>) -> Self {
        Self { commit: commit.to_owned(), files }
    }

    /// Whether a file of this name is fetched at all.
    pub(crate) fn wants(name: &str) -> bool {
        COMPANIONS.contains(&name) || name.ends_with(".safetensors")
    }

    /// Whether whoever reads a folder takes a file of this name for the checkpoint's. Weights under other names count only where an index has them,
    /// which is fetched: what an export wrote beside the checkpoint is in nobody's way.
    pub(crate) fn is_read(name: &str) -> bool {
        COMPANIONS.contains(&name) || name == WEIGHTS
    }

    /// What a checkpoint cannot do without and is not here; the error says what is wrong with the index.
    pub(crate) fn lacks(&self, index: Option<&[u8]>) -> Result<Vec<String>, String> {
        let mut needed = match index {
            Some(bytes) => shards(bytes)?,
            None if self.files.iter().any(|file| file.name.ends_with(".safetensors")) => BTreeSet::new(),
            None => BTreeSet::from([WEIGHTS.to_owned()]),
        };
        needed.insert("config.json".to_owned());
        Ok(needed.into_iter().filter(|name| self.file(name).is_none()).map(|name| format!("`{name}` is missing")).collect())
    }

    /// Config, tokenizer and index.
    pub(crate) fn companions(&self) -> Vec<&RemoteFile> {
        self.files.iter().filter(|file| COMPANIONS.contains(&file.name.as_str())).collect()
    }

    /// Whether the weights' names are in an index.
    pub(crate) fn index(&self) -> Option<&RemoteFile> {
        self.file(INDEX)
    }

    /// The weight files: those of `index` where there is one, else `model.safetensors`, else all safetensors files.
    pub(crate) fn weights(&self, address: &Address, index: Option<&[u8]>) -> Result<Vec<&RemoteFile>, Error> {
        let refuse = |problem: String| Error::Repository { address: address.to_string(), problem };
        if let Some(bytes) = index {
            let find = |name: &String| self.file(name).ok_or_else(|| refuse(format!("lacks `{name}`, which its {INDEX} names")));
            return shards(bytes).map_err(refuse)?.iter().map(find).collect();
        }
        if let Some(file) = self.file(WEIGHTS) {
            return Ok(vec![file]);
        }
        let all: Vec<&RemoteFile> = self.files.iter().filter(|file| file.name.ends_with(".safetensors")).collect();
        if all.is_empty() { Err(refuse("has no *.safetensors".to_owned())) } else { Ok(all) }
    }

    /// Whether it is there at all.
    pub(crate) fn file(&self, name: &str) -> Option<&RemoteFile> {
        self.files.iter().find(|file| file.name == name)
    }
}

/// Names of an index.
fn shards(index: &[u8]) -> Result<BTreeSet<String>, String> {
    let index: Index = serde_json::from_slice(index).map_err(|error| format!("has a broken {INDEX}: {error}"))?;
    Ok(index.weight_map.into_values().collect())
}

impl Sibling {
    fn file(self) -> Result<RemoteFile, String> {
        let name = self.rfilename;
        if let Some(Lfs { sha256, size }) = self.lfs {
            let digest: Digest = sha256.parse().map_err(|error| format!("`{name}`: {error}"))?;
            return Ok(RemoteFile { name, size, hash: RemoteHash::Sha256(digest) });
        }
        match (self.size, self.blob_id) {
            (Some(size), Some(blob)) if is_hex(&blob, 40) => {
                Ok(RemoteFile { name, size, hash: RemoteHash::Git(blob.to_ascii_lowercase()) })
            }
            _ => Err(format!("says neither size nor hash of `{name}`")),
        }
    }
}
