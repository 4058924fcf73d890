//! What decoding will take, counted before it.
//!
//! An empty message is two bytes in a file and hundreds in memory. So the messages are counted on the encoded bytes, and a file is refused
//! whose messages would take far more memory than the file itself explains.

use std::mem::size_of;

use crate::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, SparseTensorProto, StringStringEntryProto,
    TensorAnnotation, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, tensor_shape_proto,
};

/// Memory that any file may take.
const FREE: u64 = 64 << 20;
/// Memory that a file may take a byte.
const PER_BYTE: u64 = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    Sparse,
    ValueInfo,
    /// A type, and what stands between it and the next one inside.
    Type,
    Shape,
    Dimension,
    Function,
    Annotation,
    Entry,
    OperatorSet,
}

impl Message {
    fn bytes(self) -> usize {
        match self {
            Self::Model => size_of::<ModelProto>(),
            Self::Graph => size_of::<GraphProto>(),
            Self::Node => size_of::<NodeProto>(),
            Self::Attribute => size_of::<AttributeProto>(),
            Self::Tensor => size_of::<TensorProto>(),
            Self::Sparse => size_of::<SparseTensorProto>(),
            Self::ValueInfo => size_of::<ValueInfoProto>(),
            Self::Type => size_of::<TypeProto>(),
            Self::Shape => size_of::<TensorShapeProto>(),
            Self::Dimension => size_of::<tensor_shape_proto::Dimension>(),
            Self::Function => size_of::<FunctionProto>(),
            Self::Annotation => size_of::<TensorAnnotation>(),
            Self::Entry => size_of::<StringStringEntryProto>(),
            Self::OperatorSet => size_of::<OperatorSetIdProto>(),
        }
    }

    /// The fields that hold messages, by the numbers of `proto/onnx.proto`.
    fn fields(self) -> &'static [(u64, Self)] {
        match self {
            Self::Model => &[(7, Self::Graph), (8, Self::OperatorSet), (14, Self::Entry), (25, Self::Function)],
            Self::Graph => &[
                (1, Self::Node),
                (5, Self::Tensor),
                (11, Self::ValueInfo),
                (12, Self::ValueInfo),
                (13, Self::ValueInfo),
                (14, Self::Annotation),
                (15, Self::Sparse),
                (16, Self::Entry),
            ],
            Self::Node => &[(5, Self::Attribute), (9, Self::Entry)],
            Self::Attribute => &[
                (5, Self::Tensor),
                (6, Self::Graph),
                (10, Self::Tensor),
                (11, Self::Graph),
                (14, Self::Type),
                (15, Self::Type),
                (22, Self::Sparse),
                (23, Self::Sparse),
            ],
            Self::Tensor => &[(13, Self::Entry), (16, Self::Entry)],
            Self::Sparse => &[(1, Self::Tensor), (2, Self::Tensor)],
            Self::ValueInfo => &[(2, Self::Type), (4, Self::Entry)],
            Self::Type => &[(1, Self::Type), (2, Self::Shape), (4, Self::Type), (5, Self::Type), (8, Self::Type), (9, Self::Type)],
            Self::Shape => &[(1, Self::Dimension)],
            Self::Function => &[(7, Self::Node), (9, Self::OperatorSet), (11, Self::Attribute), (12, Self::ValueInfo), (14, Self::Entry)],
            Self::Annotation => &[(2, Self::Entry)],
            Self::Dimension | Self::Entry | Self::OperatorSet => &[],
        }
    }
}

/// Refuses `bytes` whose messages would take more memory than such a file may; returns what they would take otherwise.
pub(crate) fn check(bytes: &[u8]) -> Result<u64, u64> {
    let limit = FREE.saturating_add(PER_BYTE.saturating_mul(bytes.len() as u64));
    let mut taken = 0u64;
    let mut stack = vec![(Message::Model, bytes)];
    while let Some((message, mut rest)) = stack.pop() {
        // Lists grow by doubling.
        taken = taken.saturating_add(2 * message.bytes() as u64);
        if taken > limit {
            return Err(limit);
        }
        // Where the bytes are no protobuf, decoding stops too, and says why.
        while let Some((number, content)) = field(&mut rest) {
            if let (Some(content), Some((_, inner))) = (content, message.fields().iter().find(|(known, _)| *known == number)) {
                stack.push((*inner, content));
            }
        }
    }
    Ok(taken)
}

/// Takes a field off `rest`: its number, and its content where it has a length. `None` at the end and at what is no field.
fn field<'a>(rest: &mut &'a [u8]) -> Option<(u64, Option<&'a [u8]>)> {
    let key = varint(rest)?;
    let skipped = match key & 7 {
        0 => {
            varint(rest)?;
            0
        }
        1 => 8,
        5 => 4,
        // Groups: old, and no part of the schema.
        3 | 4 => 0,
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            let (content, after) = rest.split_at_checked(length)?;
            *rest = after;
            return Some((key >> 3, Some(content)));
        }
        _ => return None,
    };
    *rest = rest.get(skipped..)?;
    Some((key >> 3, None))
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for index in 0..10 {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[test]
    fn every_message_is_counted() {
        let entry = || StringStringEntryProto { key: Some("k".into()), value: Some("v".into()) };
        let tensor = || TensorProto { external_data: vec![entry()], ..TensorProto::default() };
        let attribute = AttributeProto { t: Some(tensor()), g: Some(GraphProto::default()), ..AttributeProto::default() };
        let node = NodeProto { attribute: vec![attribute], ..NodeProto::default() };
        let graph = GraphProto { node: vec![node], initializer: vec![tensor(), tensor()], ..GraphProto::default() };
        let model = ModelProto { graph: Some(graph), ..ModelProto::default() };
        let bytes = [Message::Model, Message::Graph, Message::Graph, Message::Node, Message::Attribute];
        let once: usize = bytes.iter().map(|message| message.bytes()).sum();
        let tensors = 3 * (Message::Tensor.bytes() + Message::Entry.bytes());
        assert_eq!(check(&model.encode_to_vec()), Ok(2 * (once + tensors) as u64));
    }

    /// Two bytes an attribute, which takes hundreds in memory.
    #[test]
    fn many_empty_messages_are_refused_before_they_are_made() {
        let mut node = vec![0x0a, 0];
        node.extend([0x2a, 0].repeat(1_000_000));
        let wrap = |tag: u8, inner: &[u8]| {
            let mut bytes = vec![tag];
            prost::encoding::encode_varint(inner.len() as u64, &mut bytes);
            bytes.extend_from_slice(inner);
            bytes
        };
        let bytes = wrap(0x3a, &wrap(0x0a, &node));
        assert_eq!(check(&bytes), Err(FREE + PER_BYTE * bytes.len() as u64));
        assert!(check(&bytes[..1000]).is_ok());
    }
}
