//! Bytes to model and back.

use std::path::Path;

use prost::Message;

use crate::Error;
use crate::proto::ModelProto;

/// Reads a model from `bytes`. Nesting is bounded (100 messages), lengths are checked against the bytes that are there.
///
/// # Errors
/// The bytes are not a protobuf message of this schema, or hold no graph.
pub fn decode(bytes: &[u8]) -> Result<ModelProto, Error> {
    let model = ModelProto::decode(bytes)?;
    if model.graph.is_none() {
        return Err(Error::NoGraph);
    }
    Ok(model)
}

/// The bytes of `model`: the same for the same model, fields in the order of their numbers.
pub fn encode(model: &ModelProto) -> Vec<u8> {
    model.encode_to_vec()
}

/// Reads the model file at `path`, without its external data.
///
/// # Errors
/// Those of the system and of [`decode`].
pub fn load(path: &Path) -> Result<ModelProto, Error> {
    decode(&plansmith_files::read(path)?)
}
