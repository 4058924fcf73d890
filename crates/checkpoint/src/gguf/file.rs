//! A GGUF file's header: metadata and the table of tensors, every range checked against the file.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use super::GgmlType;
use super::error::{Error, Problem};
use super::reader::{Failure, Reader};
use super::value::Value;
use crate::Foreign;

const DEFAULT_ALIGNMENT: u64 = 32;
const MAX_DIMENSIONS: u32 = 4;
/// Key length and value type, tensor name length and the rest of an entry: what the shortest of each takes.
const SHORTEST_KEY: u64 = 8 + 4 + 1;
const SHORTEST_TENSOR: u64 = 8 + 4 + 4 + 8;

/// One tensor of a GGUF file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GgufTensor {
    /// Its name, as in the file.
    pub name: String,
    /// How its elements are stored.
    pub ggml_type: GgmlType,
    /// Dimensions, outermost first: the reverse of the order in the file. The last one is what blocks run along.
    pub shape: Vec<u64>,
    /// First byte, counted from the start of the file.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl GgufTensor {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }
}

/// The header of a GGUF file of any architecture.
#[derive(Debug, Clone, PartialEq)]
pub struct Gguf {
    /// The file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub size: u64,
    /// Version of the format, 2 or 3.
    pub version: u32,
    /// Every key with its value, in the order of the file.
    pub metadata: IndexMap<String, Value>,
    /// Tensors by name, in the order of the table.
    pub tensors: IndexMap<String, GgufTensor>,
}

impl Gguf {
    /// Reads the header; no tensor is touched, so it costs the same for a model of any size.
    ///
    /// # Errors
    /// The file cannot be read, or [`Problem`] says what is wrong with its header.
    pub fn open(path: &Path) -> Result<Self, Error> {
        // Looked at before it is opened: opening a FIFO would wait for its writer.
        let metadata = plansmith_files::metadata(path)?;
        if !metadata.is_file() {
            return Err(Problem::NotAFile.at(path));
        }
        let file = plansmith_files::open(path)?;
        Self::read(path, BufReader::with_capacity(1 << 18, file), metadata.len())
    }

    /// Reads a header from memory, where `path` is only what errors name. For tests and fuzzing.
    ///
    /// # Errors
    /// As [`Gguf::open`].
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        Self::read(path, bytes, bytes.len() as u64)
    }

    fn read(path: &Path, source: impl Read, size: u64) -> Result<Self, Error> {
        parse(path, source, size).map_err(|failure| match failure {
            Failure::Io(error) => plansmith_files::Error::new("read", path, error).into(),
            Failure::Problem(problem) => problem.at(path),
        })
    }
}

fn parse(path: &Path, source: impl Read, size: u64) -> Result<Gguf, Failure> {
    let mut reader = Reader::new(source, size);
    let magic = reader.bytes4("the signature").map_err(|failure| match failure {
        Failure::Problem(_) => Problem::Magic(None).into(),
        io => io,
    })?;
    if magic != *b"GGUF" {
        return Err(Problem::Magic(Foreign::sniff(&magic)).into());
    }
    let version = reader.u32("the version")?;
    match version {
        2 | 3 => {}
        _ if version != 0 && version.swap_bytes() <= 3 => return Err(Problem::BigEndian.into()),
        _ => return Err(Problem::Version(version).into()),
    }
    let tensor_count = reader.u64("the number of tensors")?;
    let key_count = reader.u64("the number of metadata keys")?;

    let key_count = reader.expect(key_count, SHORTEST_KEY, || format!("a table of {key_count} metadata keys"))?;
    let mut metadata = IndexMap::with_capacity(key_count.min(4096));
    for index in 0..key_count {
        let key = reader.name(&format!("the name of metadata key {index}"))?;
        let value = reader.value(&key)?;
        if metadata.contains_key(&key) {
            return Err(Problem::DuplicateKey(key).into());
        }
        metadata.insert(key, value);
    }

    let tensor_count = reader.expect(tensor_count, SHORTEST_TENSOR, || format!("a table of {tensor_count} tensors"))?;
    let mut tensors = IndexMap::with_capacity(tensor_count.min(4096));
    for index in 0..tensor_count {
        let tensor = tensor_entry(&mut reader, index)?;
        if tensors.contains_key(&tensor.name) {
            return Err(Problem::DuplicateTensor(tensor.name).into());
        }
        tensors.insert(tensor.name.clone(), tensor);
    }

    let alignment = alignment(&metadata)?;
    let payload = reader.position().next_multiple_of(alignment);
    place(&mut tensors, payload, alignment, size)?;
    Ok(Gguf { path: path.to_owned(), size, version, metadata, tensors })
}

/// One entry of the table; its offset is still relative to the payload.
fn tensor_entry<R: Read>(reader: &mut Reader<R>, index: usize) -> Result<GgufTensor, Failure> {
    let name = reader.name(&format!("the name of tensor {index}"))?;
    let what = format!("the entry of tensor `{name}`");
    let dimensions = reader.u32(&what)?;
    if dimensions > MAX_DIMENSIONS {
        let what = format!("the number of dimensions of tensor `{name}`");
        return Err(Problem::Limit { what, found: dimensions.into(), limit: MAX_DIMENSIONS.into() }.into());
    }
    let mut shape = Vec::with_capacity(dimensions as usize);
    for _ in 0..dimensions {
        shape.push(reader.u64(&what)?);
    }
    shape.reverse();
    let id = reader.u32(&what)?;
    let offset = reader.u64(&what)?;
    let Some(ggml_type) = GgmlType::from_id(id) else {
        return Err(Problem::TensorType { tensor: name, id }.into());
    };
    let bytes = tensor_bytes(&name, ggml_type, &shape)?;
    Ok(GgufTensor { name, ggml_type, shape, offset, bytes })
}

fn tensor_bytes(name: &str, ggml_type: GgmlType, shape: &[u64]) -> Result<u64, Problem> {
    let block = ggml_type.block_elements();
    let row = shape.last().copied().unwrap_or(1);
    if !row.is_multiple_of(block as u64) {
        return Err(Problem::Row { tensor: name.to_owned(), row, block, ggml_type });
    }
    shape
        .iter()
        .try_fold(1u64, |product, &dimension| product.checked_mul(dimension))
        .and_then(|elements| (elements / block as u64).checked_mul(ggml_type.block_bytes() as u64))
        .filter(|&bytes| i64::try_from(bytes).is_ok())
        .ok_or_else(|| Problem::TooLarge { tensor: name.to_owned(), shape: shape.to_vec() })
}

fn alignment(metadata: &IndexMap<String, Value>) -> Result<u64, Problem> {
    const KEY: &str = "general.alignment";
    match metadata.get(KEY) {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(&Value::Unsigned(alignment)) if alignment.is_power_of_two() && alignment <= 1 << 20 => Ok(alignment),
        Some(&Value::Unsigned(alignment)) => Err(Problem::Alignment(alignment)),
        Some(other) => Err(Problem::KeyType { key: KEY.to_owned(), found: other.to_string(), expected: "an unsigned integer" }),
    }
}

/// Turns offsets into positions in the file and checks that the tensors lie in it, aligned and apart.
fn place(tensors: &mut IndexMap<String, GgufTensor>, payload: u64, alignment: u64, size: u64) -> Result<(), Problem> {
    for tensor in tensors.values_mut() {
        if !tensor.offset.is_multiple_of(alignment) {
            return Err(Problem::Offset { tensor: tensor.name.clone(), offset: tensor.offset, alignment });
        }
        let begin = payload.saturating_add(tensor.offset);
        let end = begin.saturating_add(tensor.bytes);
        if end > size {
            return Err(Problem::PastEnd { tensor: tensor.name.clone(), end, size });
        }
        tensor.offset = begin;
    }
    let mut by_offset: Vec<&GgufTensor> = tensors.values().filter(|tensor| tensor.bytes > 0).collect();
    by_offset.sort_by_key(|tensor| tensor.offset);
    for pair in by_offset.windows(2) {
        if pair[0].offset + pair[0].bytes > pair[1].offset {
            return Err(Problem::Overlap { first: pair[0].name.clone(), second: pair[1].name.clone(), at: pair[1].offset });
        }
    }
    Ok(())
}
