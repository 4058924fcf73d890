//! Where every tensor of a new safetensors file lies, known before a byte of payload is read.

use indexmap::IndexMap;
use plansmith_tensor::DType;
use serde::Serialize;

use crate::convert::is_supported;
use crate::header::PREFIX_BYTES;
use crate::{Checkpoint, Error};

/// The payload begins at a multiple of this, so that a mapped file serves vector loads.
const PAYLOAD_ALIGNMENT: u64 = 64;

/// A tensor of the file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Its name in the new file.
    pub name: String,
    /// Its name in the checkpoint.
    pub source: String,
    /// Its dtype in the new file: the stored one (bytes are copied) or one that [`crate::convert`] casts to.
    pub dtype: DType,
}

/// A tensor of the new file and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvertedTensor {
    /// Its name in the new file.
    pub name: String,
    /// Its name in the checkpoint.
    pub source: String,
    /// Its dtype in the new file.
    pub dtype: DType,
    /// Dimensions, as in the checkpoint.
    pub shape: Vec<u64>,
    /// First byte, counted from the start of the file.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// A whole file: its header, and where its tensors lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The length field and the JSON text.
    pub header: Vec<u8>,
    /// Tensors by name, in payload order.
    pub tensors: IndexMap<String, ConvertedTensor>,
    /// Size of the whole file in bytes.
    pub size: u64,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Metadata { format: &'static str },
    Tensor { dtype: &'static str, shape: &'a [u64], data_offsets: [u64; 2] },
}

/// Lays the planned tensors out: those with wide elements first, so that each is aligned to its element, else in plan order.
///
/// # Errors
/// A source tensor is absent, a name is planned twice, or the cast is none that [`crate::convert`] does.
pub fn layout(plan: &[Planned], checkpoint: &Checkpoint) -> Result<Layout, Error> {
    let mut plan: Vec<&Planned> = plan.iter().collect();
    plan.sort_by_key(|planned| std::cmp::Reverse(planned.dtype.bits()));

    let mut tensors = IndexMap::with_capacity(plan.len());
    let mut end = 0;
    for Planned { name, source, dtype } in plan {
        let info = checkpoint.tensor(source)?;
        let unsupported = || Error::Conversion { tensor: Some(source.clone()), from: info.dtype, to: *dtype };
        let bytes = dtype.tensor_bytes(&info.shape).filter(|_| is_supported(info.dtype, *dtype)).ok_or_else(unsupported)?;
        let tensor =
            ConvertedTensor { name: name.clone(), source: source.clone(), dtype: *dtype, shape: info.shape.clone(), offset: end, bytes };
        if tensors.insert(name.clone(), tensor).is_some() {
            return Err(Error::PlannedTwice(name.clone()));
        }
        end += bytes;
    }

    // The format tag is what transformers asks for.
    let mut entries = IndexMap::from([("__metadata__", Entry::Metadata { format: "pt" })]);
    for tensor in tensors.values() {
        let data_offsets = [tensor.offset, tensor.offset + tensor.bytes];
        let entry = Entry::Tensor { dtype: tensor.dtype.name(), shape: &tensor.shape, data_offsets };
        if entries.insert(&tensor.name, entry).is_some() {
            return Err(Error::PlannedTwice(tensor.name.clone()));
        }
    }
    let header = padded_header(&entries);
    let payload = header.len() as u64;
    tensors.values_mut().for_each(|tensor| tensor.offset += payload);
    Ok(Layout { header, tensors, size: payload + end })
}

fn padded_header(entries: &IndexMap<&str, Entry<'_>>) -> Vec<u8> {
    let mut json = serde_json::to_vec(entries).expect("strings and integers are JSON");
    let payload = (PREFIX_BYTES + json.len() as u64).next_multiple_of(PAYLOAD_ALIGNMENT);
    json.resize((payload - PREFIX_BYTES) as usize, b' ');
    let mut header = (json.len() as u64).to_le_bytes().to_vec();
    header.append(&mut json);
    header
}
