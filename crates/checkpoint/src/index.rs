//! `model.safetensors.index.json`: which shard holds which tensor.

use std::collections::HashMap;

use indexmap::IndexMap;
use serde::Deserialize;

use crate::json::{JsonError, parse_json};
use crate::weight_file::FileSummary;

/// The index of a sharded checkpoint; file names are bare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// File name by tensor name, in the order of the file.
    pub weight_map: IndexMap<String, String>,
}

/// Why an index was refused, by itself or against its shards.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum IndexError {
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error("`weight_map` names no tensor")]
    Empty,
    #[error("tensor `{tensor}` is in `{file}`, which is not the bare name of a .safetensors file in this folder")]
    FileName { tensor: String, file: String },
    #[error("tensor `{tensor}` is in `{file}`, which is absent")]
    MissingFile { tensor: String, file: String },
    #[error("tensor `{tensor}` should be in `{file}`, which holds no such tensor{}", elsewhere(found.as_deref()))]
    MissingTensor { tensor: String, file: String, found: Option<String> },
    #[error("`{file}` holds tensor `{tensor}`, which the index does not name")]
    UnlistedTensor { tensor: String, file: String },
    #[error("`{file}` holds tensor `{tensor}`, which the index places in `{listed}`")]
    OtherFile { tensor: String, file: String, listed: String },
}

fn elsewhere(found: Option<&str>) -> String {
    found.map_or_else(|| "; no shard does".to_owned(), |file| format!("; `{file}` does"))
}

impl IndexError {
    /// The next step, where there is one to name.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::MissingFile { file, .. } => Some(format!("download `{file}` again, or the whole checkpoint")),
            Self::MissingTensor { .. } | Self::UnlistedTensor { .. } | Self::OtherFile { .. } => {
                Some("index and shards are of different saves: download or save the checkpoint again".to_owned())
            }
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct RawIndex {
    weight_map: IndexMap<String, String>,
}

impl Index {
    /// Parses the text of an index and checks that it names files of its own folder only.
    ///
    /// # Errors
    /// It is not JSON of the right form, repeats a key, names no tensor, or names a file that is no bare `.safetensors` name.
    pub fn parse(text: &[u8]) -> Result<Self, IndexError> {
        let RawIndex { weight_map } = parse_json(text)?;
        if weight_map.is_empty() {
            return Err(IndexError::Empty);
        }
        for (tensor, file) in &weight_map {
            if !is_bare_name(file) {
                return Err(IndexError::FileName { tensor: tensor.clone(), file: file.clone() });
            }
        }
        Ok(Self { weight_map })
    }

    /// The files that it names, each once, sorted by name, each with the first tensor placed in it.
    pub fn files(&self) -> Vec<(&str, &str)> {
        let mut files = IndexMap::new();
        for (tensor, file) in &self.weight_map {
            files.entry(file.as_str()).or_insert(tensor.as_str());
        }
        files.sort_unstable_keys();
        files.into_iter().collect()
    }

    /// Checks that every tensor is in the shard that the index places it in, and that the shards hold no other.
    pub(crate) fn check(&self, shards: &[FileSummary]) -> Result<(), IndexError> {
        let by_name: HashMap<&str, &FileSummary> = shards.iter().map(|shard| (shard.file.name.as_str(), shard)).collect();
        for (tensor, file) in &self.weight_map {
            let holds = |shard: &FileSummary| shard.header.tensors.contains_key(tensor);
            if !by_name.get(file.as_str()).is_some_and(|shard| holds(shard)) {
                let found = shards.iter().find(|shard| holds(shard)).map(|shard| shard.file.name.clone());
                return Err(IndexError::MissingTensor { tensor: tensor.clone(), file: file.clone(), found });
            }
        }
        for shard in shards {
            for tensor in shard.header.tensors.keys() {
                let (tensor, file) = (tensor.clone(), shard.file.name.clone());
                match self.weight_map.get(&tensor) {
                    None => return Err(IndexError::UnlistedTensor { tensor, file }),
                    Some(listed) if *listed != file => {
                        return Err(IndexError::OtherFile { tensor, file, listed: listed.clone() });
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }
}

fn is_bare_name(file: &str) -> bool {
    file.ends_with(".safetensors") && !file.starts_with('.') && !file.contains(['/', '\\', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bare_names_are_files() {
        for name in ["../a.safetensors", "/a.safetensors", "a\\b.safetensors", "..", "", ".safetensors", "a.bin", "a\0.safetensors"] {
            assert!(!is_bare_name(name), "{name}");
        }
        assert!(is_bare_name("model-00001-of-00002.safetensors"));
    }

    #[test]
    fn the_first_tensor_of_each_file_is_kept() {
        let index = Index::parse(br#"{"weight_map": {"z": "b.safetensors", "a": "a.safetensors", "b": "b.safetensors"}}"#).unwrap();
        assert_eq!(index.files(), [("a.safetensors", "a"), ("b.safetensors", "z")]);
        assert_eq!(Index::parse(br#"{"weight_map": {}}"#).unwrap_err().to_string(), "`weight_map` names no tensor");
    }
}
