//! Dtypes and last dimensions of values, as far as they follow without running shape inference.

use std::collections::HashMap;

use plansmith_onnx::dtype;
use plansmith_onnx::proto::tensor_proto::DataType;
use plansmith_onnx::proto::tensor_shape_proto::dimension::Value as Dim;
use plansmith_onnx::proto::type_proto::Value as Type;
use plansmith_onnx::proto::{GraphProto, NodeProto, TensorProto, ValueInfoProto};
use plansmith_tensor::DType;

/// How many nodes are followed back from a value.
const FARTHEST: usize = 64;

/// Looks values of one graph up.
#[derive(Debug, Default)]
pub(super) struct Facts<'a> {
    declared: HashMap<&'a str, &'a ValueInfoProto>,
    initialisers: HashMap<&'a str, &'a TensorProto>,
    producers: HashMap<&'a str, &'a NodeProto>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(graph: &'a GraphProto) -> Self {
        let declared = graph.input.iter().chain(&graph.value_info).chain(&graph.output).map(|info| (info.name(), info));
        let made = graph.node.iter().flat_map(|node| node.output.iter().map(move |output| (output.as_str(), node)));
        Self {
            declared: declared.collect(),
            initialisers: graph.initializer.iter().map(|tensor| (tensor.name(), tensor)).collect(),
            producers: made.collect(),
        }
    }

    /// An initialiser, or what a Constant node holds.
    pub(super) fn constant(&self, name: &str) -> Option<&'a TensorProto> {
        if let Some(tensor) = self.initialisers.get(name) {
            return Some(tensor);
        }
        let node = self.producers.get(name).filter(|node| node.op_type() == "Constant")?;
        node.attribute.iter().find(|attribute| attribute.name() == "value")?.t.as_ref()
    }

    /// The element type of a value; `None` where it is not plain.
    pub(super) fn dtype(&self, name: &str) -> Option<DType> {
        let mut name = name;
        for _ in 0..FARTHEST {
            if let Some(tensor) = self.constant(name) {
                return dtype(tensor.data_type());
            }
            if let Some(Type::TensorType(tensor)) =
                self.declared.get(name).and_then(|info| info.r#type.as_ref()).and_then(|r#type| r#type.value.as_ref())
            {
                return dtype(tensor.elem_type());
            }
            let node = self.producers.get(name)?;
            name = match (node.domain(), node.op_type()) {
                (_, "Cast") => return dtype(i32::try_from(integer(node, "to")?).ok()?),
                ("", "Where") => node.input.get(1)?,
                ("", operator) if KEEPS_DTYPE.contains(&operator) => node.input.first()?,
                _ => return None,
            };
        }
        None
    }

    /// The name in the standard of a constant's element type.
    pub(super) fn dtype_name(&self, name: &str) -> Option<&'static str> {
        DataType::try_from(self.constant(name)?.data_type()).ok().map(|dtype| dtype.as_str_name())
    }

    /// The last dimension of a value; `None` where it is open or not plain.
    pub(super) fn last_dim(&self, name: &str) -> Option<i64> {
        let mut name = name;
        for _ in 0..FARTHEST {
            if let Some(tensor) = self.initialisers.get(name) {
                return tensor.dims.last().copied();
            }
            if let Some(dim) = self.declared_last(name) {
                return Some(dim);
            }
            let node = self.producers.get(name)?;
            name = match node.op_type() {
                "Reshape" => return self.integers(node.input.get(1)?)?.last().copied().filter(|dim| *dim > 0),
                "Transpose" => {
                    let perm = &node.attribute.iter().find(|attribute| attribute.name() == "perm")?.ints;
                    let last = i64::try_from(perm.len()).ok()? - 1;
                    if perm.last() != Some(&last) {
                        return None;
                    }
                    node.input.first()?
                }
                "Concat" if integer(node, "axis")? == 2 => node.input.iter().rev().find(|input| self.declared_last(input).is_some())?,
                "Cast" | "Identity" | "RotaryEmbedding" | "RMSNormalization" | "TensorScatter" => node.input.first()?,
                _ => return None,
            };
        }
        None
    }

    fn declared_last(&self, name: &str) -> Option<i64> {
        let Some(Type::TensorType(tensor)) = self.declared.get(name)?.r#type.as_ref()?.value.as_ref() else { return None };
        match tensor.shape.as_ref()?.dim.last()?.value.as_ref()? {
            Dim::DimValue(dim) => Some(*dim),
            Dim::DimParam(_) => None,
        }
    }

    /// The elements of a constant of int64.
    fn integers(&self, name: &str) -> Option<Vec<i64>> {
        let tensor = self.constant(name).filter(|tensor| dtype(tensor.data_type()) == Some(DType::I64))?;
        if !tensor.int64_data.is_empty() {
            return Some(tensor.int64_data.clone());
        }
        let (numbers, rest) = tensor.raw_data().as_chunks::<8>();
        rest.is_empty().then(|| numbers.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
    }
}

/// Operators whose result has the dtype of their first input.
const KEEPS_DTYPE: [&str; 32] = [
    "Add",
    "Attention",
    "Concat",
    "Div",
    "Expand",
    "Flatten",
    "Gather",
    "Gemm",
    "Identity",
    "MatMul",
    "Mul",
    "Neg",
    "Pad",
    "Pow",
    "RMSNormalization",
    "Reciprocal",
    "ReduceMean",
    "ReduceSum",
    "Relu",
    "Reshape",
    "RotaryEmbedding",
    "Sigmoid",
    "Slice",
    "Softmax",
    "Split",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Tanh",
    "TensorScatter",
    "Transpose",
    "Unsqueeze",
];

/// An attribute that is an integer.
pub(super) fn integer(node: &NodeProto, name: &str) -> Option<i64> {
    node.attribute.iter().find(|attribute| attribute.name() == name).map(|attribute| attribute.i())
}
