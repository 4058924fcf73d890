//! Operators that make much of little: a few bytes of constants that would fill the memory when a runtime folds them.

use std::collections::HashMap;

use crate::contents::elements;
use crate::order::with_inner;
use crate::proto::{AttributeProto, ModelProto, NodeProto, TensorProto};
use crate::quote::quoted;
use crate::tensors;

/// Elements that one operator on constants may make: a gigabyte of fp32.
const MOST_ELEMENTS: f64 = (1u64 << 28) as f64;

/// Refuses operators whose result is as large as constants say and larger than any model needs. What a graph computes of its inputs is not
/// looked at.
pub(crate) fn check(model: &ModelProto) -> Result<(), String> {
    let graph = model.graph.as_ref().map_or(&[][..], |graph| &graph.node);
    let bodies = model.functions.iter().map(|function| &function.node[..]);
    let nodes: Vec<&NodeProto> = std::iter::once(graph).chain(bodies).flat_map(with_inner).collect();
    let mut constants: HashMap<&str, &TensorProto> = tensors(model).into_iter().map(|tensor| (tensor.name(), tensor)).collect();
    for node in nodes.iter().filter(|node| node.op_type() == "Constant") {
        if let (Some(name), Some(value)) = (node.output.first(), node.attribute.iter().find_map(|attribute| attribute.t.as_ref())) {
            constants.insert(name, value);
        }
    }
    for node in nodes {
        let made = made(node, &constants);
        if made.is_some_and(|made| made > MOST_ELEMENTS) {
            let (name, kind, made) = (quoted(node.name()), quoted(node.op_type()), made.unwrap_or_default());
            return Err(format!("node {name} ({kind}) would make {made:.0} elements of constants"));
        }
    }
    Ok(())
}

/// Elements that `node` makes at least; `None` where that depends on what is not constant.
fn made(node: &NodeProto, constants: &HashMap<&str, &TensorProto>) -> Option<f64> {
    let numbers = |index: usize| constants.get(node.input.get(index)?.as_str()).and_then(|tensor| numbers(tensor));
    let product = |numbers: Vec<f64>| numbers.into_iter().map(|number| number.max(1.0)).product::<f64>();
    match node.op_type() {
        "ConstantOfShape" => numbers(0).map(product),
        "Expand" | "Tile" => numbers(1).map(product),
        "OneHot" => numbers(1).map(product),
        "Range" => match [numbers(0)?[..].first()?, numbers(1)?[..].first()?, numbers(2)?[..].first()?] {
            [start, limit, delta] => Some(((limit - start) / delta).max(0.0)),
        },
        "RandomNormal" | "RandomUniform" => {
            let shape = node.attribute.iter().find(|attribute: &&AttributeProto| attribute.name() == "shape")?;
            Some(product(shape.ints.iter().map(|&dim| dim as f64).collect()))
        }
        _ => None,
    }
}

/// The elements of a small tensor of numbers that is held inline.
fn numbers(tensor: &TensorProto) -> Option<Vec<f64>> {
    let count = elements(&tensor.dims).ok().filter(|count| *count <= 64)? as usize;
    let raw = tensor.raw_data();
    let dtype = crate::dtype(tensor.data_type())?;
    use plansmith_tensor::DType;
    let numbers: Vec<f64> = match dtype {
        DType::I64 if raw.is_empty() => tensor.int64_data.iter().map(|&number| number as f64).collect(),
        DType::I64 => raw.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes) as f64).collect(),
        DType::I32 if raw.is_empty() => tensor.int32_data.iter().map(|&number| f64::from(number)).collect(),
        DType::I32 => raw.as_chunks().0.iter().map(|&bytes| f64::from(i32::from_le_bytes(bytes))).collect(),
        DType::F32 if raw.is_empty() => tensor.float_data.iter().map(|&number| f64::from(number)).collect(),
        DType::F32 => raw.as_chunks().0.iter().map(|&bytes| f64::from(f32::from_le_bytes(bytes))).collect(),
        DType::F64 if raw.is_empty() => tensor.double_data.clone(),
        DType::F64 => raw.as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect(),
        _ => return None,
    };
    (numbers.len() == count).then_some(numbers)
}
