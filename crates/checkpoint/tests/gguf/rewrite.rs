//! A GGUF file taken apart, changed and put together again.

use indexmap::IndexMap;
use plansmith_checkpoint::gguf::{Array, GgmlType, Gguf, Value};

/// A file whose parts can be changed.
pub(crate) struct Parts {
    pub(crate) metadata: IndexMap<String, Value>,
    pub(crate) tensors: IndexMap<String, Part>,
}

#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) ggml_type: GgmlType,
    /// Outermost dimension first.
    pub(crate) shape: Vec<u64>,
    pub(crate) payload: Vec<u8>,
}

impl Parts {
    pub(crate) fn of(file: &[u8]) -> Self {
        let gguf = Gguf::from_bytes("parts".as_ref(), file).unwrap();
        let part = |tensor: &plansmith_checkpoint::gguf::GgufTensor| Part {
            ggml_type: tensor.ggml_type,
            shape: tensor.shape.clone(),
            payload: file[tensor.offset as usize..][..tensor.bytes as usize].to_vec(),
        };
        let tensors = gguf.tensors.iter().map(|(name, tensor)| (name.clone(), part(tensor))).collect();
        Self { metadata: gguf.metadata, tensors }
    }

    pub(crate) fn set(&mut self, key: &str, value: Value) {
        self.metadata.insert(key.to_owned(), value);
    }

    /// The file, version 3, aligned to 32.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            text(&mut out, key);
            write(&mut out, value);
        }
        let mut offset = 0u64;
        for (name, part) in &self.tensors {
            text(&mut out, name);
            out.extend((part.shape.len() as u32).to_le_bytes());
            part.shape.iter().rev().for_each(|size| out.extend(size.to_le_bytes()));
            let id = (0..64).find(|&id| GgmlType::from_id(id) == Some(part.ggml_type)).unwrap();
            out.extend(id.to_le_bytes());
            out.extend(offset.to_le_bytes());
            offset = (offset + part.payload.len() as u64).next_multiple_of(32);
        }
        for part in self.tensors.values() {
            out.resize(out.len().next_multiple_of(32), 0);
            out.extend(&part.payload);
        }
        out
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn write(out: &mut Vec<u8>, value: &Value) {
    let array = |out: &mut Vec<u8>, id: u32, count: usize| {
        out.extend(9u32.to_le_bytes());
        out.extend(id.to_le_bytes());
        out.extend((count as u64).to_le_bytes());
    };
    match value {
        Value::Unsigned(number) => out.extend([&10u32.to_le_bytes()[..], &number.to_le_bytes()].concat()),
        Value::Signed(number) => out.extend([&11u32.to_le_bytes()[..], &number.to_le_bytes()].concat()),
        Value::Float(number) => out.extend([&12u32.to_le_bytes()[..], &number.to_le_bytes()].concat()),
        Value::Bool(flag) => out.extend([&7u32.to_le_bytes()[..], &[u8::from(*flag)]].concat()),
        Value::Text(value) => {
            out.extend(8u32.to_le_bytes());
            text(out, value);
        }
        Value::Array(Array::Unsigned(items)) => {
            array(out, 10, items.len());
            items.iter().for_each(|item| out.extend(item.to_le_bytes()));
        }
        Value::Array(Array::Signed(items)) => {
            array(out, 11, items.len());
            items.iter().for_each(|item| out.extend(item.to_le_bytes()));
        }
        Value::Array(Array::Float(items)) => {
            array(out, 12, items.len());
            items.iter().for_each(|item| out.extend(item.to_le_bytes()));
        }
        Value::Array(Array::Bool(items)) => {
            array(out, 7, items.len());
            out.extend(items.iter().map(|&item| u8::from(item)));
        }
        Value::Array(Array::Text(items)) => {
            array(out, 8, items.len());
            items.iter().for_each(|item| text(out, item));
        }
    }
}
