//! A checkpoint with its config read and bound.

use std::path::Path;

use plansmith_checkpoint::{Checkpoint, parse_json};
use plansmith_families::{Loaded, Options, Tensors, find_family, load};
use plansmith_files::Digest;
use serde_json::Value;

use crate::Error;

/// A checkpoint whose config is understood and whose tensors are all there.
#[derive(Debug)]
pub struct Source {
    /// The weights.
    pub checkpoint: Checkpoint,
    /// What they compute.
    pub loaded: Loaded,
    /// SHA-256 of config.json.
    pub config_digest: Digest,
}

impl Source {
    /// Opens the checkpoint in `folder`, in O(header).
    ///
    /// # Errors
    /// The files are broken, the config is not understood, or the two do not fit.
    pub fn open(folder: &Path, options: &Options) -> Result<Self, Error> {
        // A family that nobody has written is the better news where weights are missing too.
        if let Some(config) = plansmith_files::read(&folder.join("config.json")).ok().and_then(|text| parse_json::<Value>(&text).ok()) {
            find_family(&config)?;
        }
        let checkpoint = Checkpoint::open(folder)?;
        let config: Value = checkpoint.read_json("config.json")?;
        let config_digest = Digest::of(&checkpoint.read_bytes("config.json")?);
        let tensors: Tensors<'_> = checkpoint.tensors().values().map(|tensor| (tensor.name.as_str(), tensor.shape.as_slice())).collect();
        let loaded = load(&config, &tensors, options)?;
        Ok(Self { checkpoint, loaded, config_digest })
    }
}
