//! The element types of a graph, and those that it multiplies in.

use std::collections::{BTreeMap, HashMap};

use plansmith_onnx::ModelProto;
use plansmith_onnx::proto::type_proto::Value as TypeValue;
use plansmith_onnx::proto::{GraphProto, NodeProto, ValueInfoProto};
use plansmith_tensor::DType;

/// Operators that TensorRT makes products of matrices of.
const PRODUCTS: [&str; 5] = ["MatMul", "Gemm", "Attention", "Einsum", "Conv"];

/// Element types with the first tensor or node that has each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GraphTypes {
    /// Types that occur at all.
    pub present: BTreeMap<DType, String>,
    /// Types that matrices are multiplied in.
    pub products: BTreeMap<DType, String>,
}

impl GraphTypes {
    /// Of the main graph. Types follow the nodes; where a node's type is not known, neither is that of what it feeds.
    pub(crate) fn of(model: &ModelProto) -> Self {
        let Some(graph) = &model.graph else { return Self::default() };
        let mut types = declared(graph);
        let mut found = Self::default();
        for tensor in &graph.initializer {
            found.has(types.get(tensor.name()), tensor.name());
        }
        for node in &graph.node {
            let given = |index: usize| node.input.get(index).and_then(|name| types.get(name.as_str())).copied();
            if PRODUCTS.contains(&node.op_type())
                && node.domain().is_empty()
                && let Some(dtype) = given(0)
            {
                found.products.entry(dtype).or_insert_with(|| node.name().to_owned());
            }
            let dtype = result(node, given);
            found.has(dtype.as_ref(), node.name());
            types.extend(dtype.iter().flat_map(|&dtype| node.output.iter().map(move |output| (output.as_str(), dtype))));
        }
        found
    }

    fn has(&mut self, dtype: Option<&DType>, place: &str) {
        if let Some(&dtype) = dtype {
            self.present.entry(dtype).or_insert_with(|| place.to_owned());
        }
    }
}

/// What the graph says itself.
fn declared(graph: &GraphProto) -> HashMap<&str, DType> {
    let tensors = graph.initializer.iter().map(|tensor| (tensor.name(), tensor.data_type()));
    let of = |info: &ValueInfoProto| match info.r#type.as_ref()?.value.as_ref()? {
        TypeValue::TensorType(tensor) => Some(tensor.elem_type()),
        _ => None,
    };
    let values = graph.input.iter().chain(&graph.value_info).filter_map(|info| Some((info.name(), of(info)?)));
    tensors.chain(values).filter_map(|(name, number)| Some((name, plansmith_onnx::dtype(number)?))).collect()
}

/// The type of a node's first output.
fn result(node: &NodeProto, given: impl Fn(usize) -> Option<DType>) -> Option<DType> {
    let attribute = |name: &str| node.attribute.iter().find(|attribute| attribute.name() == name);
    match node.op_type() {
        "Cast" => plansmith_onnx::dtype(i32::try_from(attribute("to")?.i()).ok()?),
        "Constant" | "ConstantOfShape" => match attribute("value") {
            Some(value) => plansmith_onnx::dtype(value.t.as_ref()?.data_type()),
            None => Some(DType::F32),
        },
        "Shape" | "Size" | "ArgMax" | "ArgMin" | "NonZero" => Some(DType::I64),
        "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" | "And" | "Or" | "Not" | "Xor" | "IsNaN" | "IsInf" => {
            Some(DType::Bool)
        }
        "Where" | "DequantizeLinear" | "CastLike" => given(1),
        "QuantizeLinear" => given(2),
        // The others here give what they take.
        _ => given(0),
    }
}

#[cfg(test)]
mod tests {
    use plansmith_onnx::proto::{AttributeProto, TensorProto};

    use super::*;

    fn node(operator: &str, name: &str, inputs: &[&str], output: &str) -> NodeProto {
        NodeProto {
            op_type: Some(operator.to_owned()),
            name: Some(name.to_owned()),
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![output.to_owned()],
            ..NodeProto::default()
        }
    }

    #[test]
    fn types_follow_casts_and_each_is_named_by_its_first_node() {
        let weight = TensorProto { name: Some("w".to_owned()), data_type: Some(16), ..TensorProto::default() };
        let mut widen = node("Cast", "widen", &["a"], "wide");
        widen.attribute.push(AttributeProto { name: Some("to".to_owned()), i: Some(1), ..AttributeProto::default() });
        let nodes = vec![
            node("Gather", "rows", &["w", "ids"], "x"),
            node("MatMul", "first", &["x", "w"], "a"),
            node("Greater", "mask", &["a", "a"], "m"),
            node("MatMul", "second", &["a", "w"], "b"),
            widen,
            node("Where", "masked", &["m", "wide", "wide"], "c"),
            node("MatMul", "third", &["c", "c"], "d"),
            node("MatMul", "unknown", &["nowhere", "c"], "e"),
        ];
        let graph = GraphProto { node: nodes, initializer: vec![weight], ..GraphProto::default() };
        let found = GraphTypes::of(&ModelProto { graph: Some(graph), ..ModelProto::default() });
        assert_eq!(found.products, BTreeMap::from([(DType::BF16, "first".to_owned()), (DType::F32, "third".to_owned())]));
        let present = [(DType::Bool, "mask".to_owned()), (DType::BF16, "w".to_owned()), (DType::F32, "widen".to_owned())];
        assert_eq!(found.present, BTreeMap::from(present));
    }
}
