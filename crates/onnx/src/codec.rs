//! Bytes to model and back.

use std::io::Read as _;
use std::path::Path;

use prost::Message;

use crate::proto::ModelProto;
use crate::{Error, budget};

/// Bytes of the largest message that protobuf allows.
const LARGEST: u64 = (1 << 31) - 1;

/// Reads a model from `bytes`. Nesting is bounded (100 messages), lengths are checked against the bytes that are there, and so is the memory
/// that the messages take.
///
/// # Errors
/// The bytes are not a protobuf message of this schema, unfold into far more than they are, or hold no graph.
pub fn decode(bytes: &[u8]) -> Result<ModelProto, Error> {
    budget::check(bytes).map_err(|limit| Error::Budget { bytes: bytes.len() as u64, limit })?;
    let model = ModelProto::decode(bytes).map_err(|error| Error::Decode(error.to_string()))?;
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
/// Those of the system; [`Error::InFile`] with those of [`decode`], a file that is no regular file, or one beyond the 2 GB of protobuf.
pub fn load(path: &Path) -> Result<ModelProto, Error> {
    let refuse = |error: Error| Error::InFile { path: path.to_owned(), problem: Box::new(error) };
    let metadata = plansmith_files::metadata(path)?;
    if !metadata.is_file() {
        return Err(refuse(Error::NotAFile));
    }
    let size = metadata.len();
    if size > LARGEST {
        return Err(refuse(Error::TooLarge { size }));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    // The file may be growing: what it had when it was measured is read, and no more.
    let read = plansmith_files::open(path)?.take(size).read_to_end(&mut bytes);
    read.map_err(|source| plansmith_files::Error::new("read", path, source))?;
    decode(&bytes).map_err(refuse)
}
