//! The header of one safetensors file: parsed, and every range checked against the file.
//!
//! Source: the format section of the safetensors project's README: eight bytes of little-endian length, a JSON object, the payload.

use std::fmt;

use indexmap::IndexMap;
use plansmith_tensor::DType;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use crate::foreign::Foreign;

/// Bytes of the length field before the JSON text.
pub(crate) const PREFIX_BYTES: u64 = 8;
/// The longest JSON text that a header may have, in bytes; the limit of the format's own reader.
const MAX_JSON_BYTES: u64 = 100_000_000;
const METADATA: &str = "__metadata__";

/// Where one tensor lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name; any text, never a path.
    pub name: String,
    /// Element type as stored.
    pub dtype: DType,
    /// Dimensions, outermost first; empty for a scalar, and a dimension may be 0.
    pub shape: Vec<u64>,
    /// Which file of the checkpoint holds it: an index into [`crate::Checkpoint::files`].
    pub file: usize,
    /// First byte, counted from the start of the file (not of the payload).
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl TensorInfo {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }
}

/// A header whose ranges tile the payload of its file exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The `__metadata__` entry, in the order of the file.
    pub metadata: IndexMap<String, String>,
    /// Tensors by name, in the order in which they lie in the payload; [`TensorInfo::file`] is 0.
    pub tensors: IndexMap<String, TensorInfo>,
    /// First byte of the payload, counted from the start of the file.
    pub payload: u64,
}

/// Why a file is no safetensors file.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum HeaderError {
    #[error("the file is empty")]
    Empty,
    #[error("it has {size} bytes; the length field alone takes 8")]
    TooShort { size: u64 },
    #[error("it is {0}")]
    Foreign(Foreign),
    #[error("the header claims {length} bytes; the format allows 100000000")]
    TooLong { length: u64 },
    #[error("the header claims {length} bytes; the file has {available} after the length field")]
    PastEnd { length: u64, available: u64 },
    #[error("the header is not the JSON that the format asks for")]
    Json(#[source] serde_json::Error),
    #[error("tensor `{0}` is listed twice")]
    DuplicateTensor(String),
    #[error("`__metadata__` is there twice")]
    DuplicateMetadata,
    #[error("key `{0}` of `__metadata__` is there twice")]
    DuplicateMetadataKey(String),
    #[error("tensor `{tensor}` has the unknown dtype `{dtype}`")]
    UnknownDType { tensor: String, dtype: String },
    #[error("tensor `{tensor}`: shape {shape:?} of {dtype} is no whole number of bytes below 2^64")]
    Size { tensor: String, dtype: DType, shape: Vec<u64> },
    #[error("tensor `{tensor}`: shape {shape:?} of {dtype} takes {expected} bytes; its data_offsets {offsets:?} span {actual}")]
    SizeMismatch { tensor: String, dtype: DType, shape: Vec<u64>, expected: u64, offsets: [u64; 2], actual: u64 },
    #[error("tensor `{tensor}`: data_offsets {offsets:?} end before they begin")]
    Reversed { tensor: String, offsets: [u64; 2] },
    #[error("tensor `{tensor}` ends at byte {end} of the payload, which has {payload}: the file is truncated")]
    Truncated { tensor: String, end: u64, payload: u64 },
    #[error("tensors `{first}` and `{second}` overlap at byte {at} of the payload")]
    Overlap { first: String, second: String, at: u64 },
    #[error("bytes {from}..{to} of the payload, before tensor `{tensor}`, belong to no tensor")]
    Hole { tensor: String, from: u64, to: u64 },
    #[error("the last {bytes} bytes of the file belong to no tensor")]
    Trailing { bytes: u64 },
}

impl HeaderError {
    /// The next step, where there is one to name.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Foreign(foreign) => Some(foreign.hint().to_owned()),
            Self::Empty | Self::TooShort { .. } | Self::PastEnd { .. } | Self::Truncated { .. } => {
                Some("the file is incomplete: download or save it again, and compare its size with the source".to_owned())
            }
            Self::UnknownDType { dtype, .. } => {
                Some(format!("`{dtype}` is no dtype of the safetensors format; if this was a GGUF, `plansmith import` reads the original"))
            }
            _ => None,
        }
    }
}

impl Header {
    /// Reads the length field: how many bytes of JSON follow it.
    ///
    /// `start` is the first bytes of the file (64 suffice, fewer where the file is shorter), `file_size` its size in bytes.
    ///
    /// # Errors
    /// The length is over the limit or past the end of the file, or the file is recognisably something else.
    pub fn json_length(start: &[u8], file_size: u64) -> Result<u64, HeaderError> {
        let Some(prefix) = start.first_chunk::<8>() else {
            return Err(match file_size {
                0 => HeaderError::Empty,
                size => HeaderError::TooShort { size },
            });
        };
        let foreign = |error| Foreign::sniff(start).map_or(error, HeaderError::Foreign);
        let length = u64::from_le_bytes(*prefix);
        if length > MAX_JSON_BYTES {
            return Err(foreign(HeaderError::TooLong { length }));
        }
        let available = file_size.saturating_sub(PREFIX_BYTES);
        if length > available {
            return Err(foreign(HeaderError::PastEnd { length, available }));
        }
        Ok(length)
    }

    /// Parses the JSON text (without the length field) of a file of `file_size` bytes.
    ///
    /// # Errors
    /// See [`HeaderError`]; a tensor is named wherever one is concerned.
    pub fn parse(json: &[u8], file_size: u64) -> Result<Self, HeaderError> {
        let raw: RawHeader = serde_json::from_slice(json).map_err(HeaderError::Json)?;
        let payload = PREFIX_BYTES + json.len() as u64;
        let payload_size = file_size
            .checked_sub(payload)
            .ok_or(HeaderError::PastEnd { length: json.len() as u64, available: file_size.saturating_sub(PREFIX_BYTES) })?;

        let mut tensors = IndexMap::with_capacity(raw.tensors.len());
        for (name, entry) in raw.tensors {
            if let Some(twice) = tensors.insert(name.clone(), entry.check(name, payload, payload_size)?) {
                return Err(HeaderError::DuplicateTensor(twice.name));
            }
        }
        // An empty tensor sorts before the one that begins where it lies.
        tensors.sort_by(|_, a, _, b| (a.offset, a.bytes).cmp(&(b.offset, b.bytes)));
        check_tiling(tensors.values(), payload, payload_size)?;
        Ok(Self { metadata: unique_metadata(raw.metadata)?, tensors, payload })
    }

    /// Parses a whole file that is in memory.
    ///
    /// # Errors
    /// As [`Header::json_length`] and [`Header::parse`].
    pub fn of_file_bytes(file: &[u8]) -> Result<Self, HeaderError> {
        let length = Self::json_length(file, file.len() as u64)?;
        let json = usize::try_from(length).ok().and_then(|length| file.get(8..8 + length));
        Self::parse(json.unwrap_or_default(), file.len() as u64)
    }
}

fn check_tiling<'a>(tensors: impl Iterator<Item = &'a TensorInfo>, payload: u64, payload_size: u64) -> Result<(), HeaderError> {
    let mut covered = 0;
    let mut previous: Option<&TensorInfo> = None;
    for tensor in tensors {
        let begin = tensor.offset - payload;
        if begin > covered {
            return Err(HeaderError::Hole { tensor: tensor.name.clone(), from: covered, to: begin });
        }
        if let Some(previous) = previous.filter(|_| begin < covered) {
            return Err(HeaderError::Overlap { first: previous.name.clone(), second: tensor.name.clone(), at: begin });
        }
        covered = begin + tensor.bytes;
        previous = Some(tensor);
    }
    match payload_size - covered {
        0 => Ok(()),
        bytes => Err(HeaderError::Trailing { bytes }),
    }
}

fn unique_metadata(raw: Vec<Pairs>) -> Result<IndexMap<String, String>, HeaderError> {
    let mut sections = raw.into_iter();
    let mut metadata = IndexMap::new();
    for (key, value) in sections.next().unwrap_or_default().0 {
        if metadata.contains_key(&key) {
            return Err(HeaderError::DuplicateMetadataKey(key));
        }
        metadata.insert(key, value);
    }
    sections.next().map_or(Ok(metadata), |_| Err(HeaderError::DuplicateMetadata))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl RawTensor {
    fn check(self, tensor: String, payload: u64, payload_size: u64) -> Result<TensorInfo, HeaderError> {
        let Self { dtype, shape, data_offsets: offsets } = self;
        let Ok(dtype) = dtype.parse::<DType>() else {
            return Err(HeaderError::UnknownDType { tensor, dtype });
        };
        let Some(expected) = dtype.tensor_bytes(&shape) else {
            return Err(HeaderError::Size { tensor, dtype, shape });
        };
        let [begin, end] = offsets;
        let Some(actual) = end.checked_sub(begin) else {
            return Err(HeaderError::Reversed { tensor, offsets });
        };
        if actual != expected {
            return Err(HeaderError::SizeMismatch { tensor, dtype, shape, expected, offsets, actual });
        }
        if end > payload_size {
            return Err(HeaderError::Truncated { tensor, end, payload: payload_size });
        }
        Ok(TensorInfo { name: tensor, dtype, shape, file: 0, offset: payload + begin, bytes: actual })
    }
}

/// What the JSON says, duplicates included: `serde_json` would keep the last of them in silence.
#[derive(Default)]
struct RawHeader {
    metadata: Vec<Pairs>,
    tensors: Vec<(String, RawTensor)>,
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HeaderVisitor;
        impl<'de> Visitor<'de> for HeaderVisitor {
            type Value = RawHeader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
                let mut raw = RawHeader::default();
                while let Some(name) = map.next_key::<String>()? {
                    let in_entry = |error| A::Error::custom(format_args!("`{name}`: {error}"));
                    if name == METADATA {
                        raw.metadata.push(map.next_value().map_err(in_entry)?);
                    } else {
                        let tensor = map.next_value().map_err(in_entry)?;
                        raw.tensors.push((name, tensor));
                    }
                }
                Ok(raw)
            }
        }
        deserializer.deserialize_map(HeaderVisitor)
    }
}

/// An object of strings, duplicates included.
#[derive(Default)]
struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object whose values are strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    let in_key = |error| A::Error::custom(format_args!("`{key}`: {error}"));
                    let value = map.next_value().map_err(in_key)?;
                    pairs.push((key, value));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(PairsVisitor)
    }
}
