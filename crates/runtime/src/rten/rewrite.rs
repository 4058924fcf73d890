//! Turns a graph into one that rten reads.

use plansmith_onnx::proto::TensorProto;
use plansmith_onnx::proto::tensor_proto::{DataLocation, DataType};
use plansmith_onnx::{ExternalData, ModelProto};

use super::mapped::MappedFiles;
use crate::Error;
use crate::tensors::{for_each_tensor, widen_declarations};

/// A graph as rten reads it, encoded, and the tensors that it refers to beside the mapped files.
pub(super) struct Rewritten {
    pub(super) graph: Vec<u8>,
    /// Name and bytes.
    pub(super) converted: Vec<(String, Vec<u8>)>,
}

impl Rewritten {
    /// What the rewritten graph calls the mapped file at `index`.
    pub(super) fn mapped_name(index: usize) -> String {
        format!("file-{index}.data")
    }
}

/// Rewrites `model`: see [`super::load`].
pub(super) fn rewrite(mut model: ModelProto, files: &MappedFiles, graph: &str) -> Result<Rewritten, Error> {
    let mut converted = Vec::new();
    for_each_tensor(&mut model, &mut |tensor| {
        rewrite_tensor(tensor, files, &mut converted).map_err(|reason| Error::ExternalData {
            graph: graph.to_owned(),
            tensor: tensor.name().to_owned(),
            reason,
        })
    })?;
    widen_declarations(&mut model);
    Ok(Rewritten { graph: plansmith_onnx::encode(&model), converted })
}

fn rewrite_tensor(tensor: &mut TensorProto, files: &MappedFiles, converted: &mut Vec<(String, Vec<u8>)>) -> Result<(), String> {
    let is_bf16 = tensor.data_type() == DataType::Bfloat16 as i32;
    let Some(data) = ExternalData::of(tensor).map_err(|error| error.to_string())? else {
        if is_bf16 {
            widen_inline(tensor);
        }
        return Ok(());
    };
    let index = files.index(&data.location).ok_or_else(|| format!("{} was not mapped", data.location))?;
    let file = files.bytes(index);
    let start = usize::try_from(data.offset).ok();
    let end = data.length.map_or(Some(file.len()), |length| usize::try_from(data.offset + length).ok());
    let bytes = start.zip(end).and_then(|(start, end)| file.get(start..end));
    let bytes = bytes.ok_or_else(|| format!("{} has become shorter", data.location))?;

    let copy = if is_bf16 {
        Some(widen(bytes))
    } else if is_aligned(data.offset, tensor.data_type()) {
        None
    } else {
        Some(bytes.to_vec())
    };
    let (location, offset, length) = match copy {
        None => (Rewritten::mapped_name(index), data.offset, bytes.len()),
        Some(copy) => {
            let (name, length) = (format!("tensor-{}.data", converted.len()), copy.len());
            converted.push((name.clone(), copy));
            (name, 0, length)
        }
    };
    if is_bf16 {
        tensor.data_type = Some(DataType::Float as i32);
    }
    tensor.external_data = ExternalData { location, offset, length: Some(length as u64) }.entries();
    Ok(())
}

/// Whether an element at `offset` of a mapped file, which starts at a page, is aligned to its size.
fn is_aligned(offset: u64, data_type: i32) -> bool {
    let size = plansmith_onnx::dtype(data_type).and_then(|dtype| dtype.bytes()).unwrap_or(1);
    offset.is_multiple_of(size as u64)
}

/// Little-endian bf16 to native fp32, of which bf16 is the upper half.
fn widen(bytes: &[u8]) -> Vec<u8> {
    let mut wide = vec![0; 2 * bytes.len()];
    for (&half, whole) in bytes.as_chunks().0.iter().zip(wide.as_chunks_mut().0) {
        *whole = widened(u16::from_le_bytes(half));
    }
    wide
}

fn widened(bits: u16) -> [u8; 4] {
    (u32::from(bits) << 16).to_ne_bytes()
}

/// bf16 elements are in `raw_data`, or as bit patterns in `int32_data`.
fn widen_inline(tensor: &mut TensorProto) {
    let wide = match tensor.raw_data.take() {
        Some(raw) => widen(&raw),
        None => tensor.int32_data.drain(..).flat_map(|bits| widened(bits as u16)).collect(),
    };
    tensor.raw_data = Some(wide);
    tensor.data_type = Some(DataType::Float as i32);
    tensor.data_location = Some(DataLocation::Default as i32);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|&bytes| f32::from_ne_bytes(bytes)).collect()
    }

    /// Patterns from bfloat16's definition: 1.0, -10.0, the smallest subnormal, infinity.
    #[test]
    fn bf16_is_widened_exactly_wherever_it_is_held() {
        let wanted = [1.0, -10.0, 2.0f32.powi(-133), f32::INFINITY];
        assert_eq!(floats(&widen(&[0x80, 0x3F, 0x20, 0xC1, 0x01, 0x00, 0x80, 0x7F])), wanted);
        let mut tensor = TensorProto { data_type: Some(DataType::Bfloat16 as i32), ..TensorProto::default() };
        tensor.int32_data = vec![0x3F80, 0xC120, 0x0001, 0x7F80];
        widen_inline(&mut tensor);
        assert_eq!(floats(tensor.raw_data()), wanted);
        assert_eq!((tensor.data_type(), tensor.int32_data.len()), (DataType::Float as i32, 0));
    }
}
