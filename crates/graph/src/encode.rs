//! The finished graph as protobuf: the only place that touches ONNX's types.

use std::collections::BTreeMap;

use plansmith_onnx::proto::attribute_proto::AttributeType;
use plansmith_onnx::proto::tensor_proto::DataLocation;
use plansmith_onnx::proto::tensor_shape_proto::{Dimension, dimension};
use plansmith_onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto, type_proto,
};
use plansmith_tensor::DType;

use crate::error::{Error, Result};
use crate::node::{Attribute, Node};
use crate::value::Initializer;
use crate::{Data, Dim, Findings, Graph, Value, check};

/// What the file says of its making.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// `producer_version`: that of plansmith.
    pub producer_version: String,
    /// `metadata_props`, written in the order of the keys.
    pub properties: BTreeMap<String, String>,
}

/// The IR version that came with `opset`: ONNX 1.16 to 1.17, 1.18 and 1.19 (`docs/Versioning.md`). Older runtimes load nothing newer.
fn ir_version(opset: u32) -> i64 {
    match opset {
        ..=22 => 10,
        23 => 11,
        _ => 12,
    }
}

impl Graph {
    /// The graph as a model; the same graph and metadata give the same bytes.
    ///
    /// # Errors
    /// A node or an initialiser that no output needs, or what [`check`] finds.
    pub fn finish(&self, metadata: &Metadata) -> Result<ModelProto> {
        self.check_use()?;
        let mut imports = self.imports.clone();
        imports.insert("", self.opset);
        let imports = imports
            .into_iter()
            .map(|(domain, version)| OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(i64::from(version)) });
        let model = ModelProto {
            ir_version: Some(ir_version(self.opset)),
            producer_name: Some("plansmith".to_owned()),
            producer_version: Some(metadata.producer_version.clone()),
            graph: Some(self.graph_proto()?),
            opset_import: imports.collect(),
            metadata_props: metadata.properties.iter().map(|(key, value)| entry(key, value)).collect(),
            ..ModelProto::default()
        };
        let Findings { mut errors, shared_node_names, .. } = check(&model);
        errors.extend(shared_node_names.iter().map(|name| format!("two nodes are named `{name}`")));
        if errors.is_empty() { Ok(model) } else { Err(Error::Invalid(errors)) }
    }

    /// Work that is thrown away is a mistake in whoever built the graph.
    fn check_use(&self) -> Result<()> {
        let mut used = vec![false; self.values.len()];
        for output in &self.outputs {
            used[output.0 as usize] = true;
        }
        for node in self.nodes.iter().rev() {
            if !node.outputs.iter().any(|output| used[output.0 as usize]) {
                return Err(Error::Unused(format!("no output needs what `{}` computes", node.name)));
            }
            for input in node.inputs.iter().flatten() {
                used[input.0 as usize] = true;
            }
        }
        match self.initializers.iter().find(|initializer| !used[initializer.value.0 as usize]) {
            Some(unused) => Err(Error::Unused(format!("no node uses the initialiser `{}`", self.value_name(unused.value)))),
            None => Ok(()),
        }
    }

    fn graph_proto(&self) -> Result<GraphProto> {
        Ok(GraphProto {
            name: Some(self.name.clone()),
            node: self.nodes.iter().map(|node| self.node_proto(node)).collect(),
            initializer: self.initializers.iter().map(|initializer| self.tensor_proto(initializer)).collect::<Result<_>>()?,
            input: self.inputs.iter().map(|&input| self.value_info(input)).collect::<Result<_>>()?,
            output: self.outputs.iter().map(|&output| self.value_info(output)).collect::<Result<_>>()?,
            value_info: self.foreign_values().map(|value| self.value_info(value)).collect::<Result<_>>()?,
            ..GraphProto::default()
        })
    }

    /// What operators of others compute, whose shapes onnx cannot infer.
    fn foreign_values(&self) -> impl Iterator<Item = Value> {
        let foreign = self.nodes.iter().filter(|node| !node.domain.is_empty());
        foreign.flat_map(|node| &node.outputs).copied().filter(|value| !self.outputs.contains(value))
    }

    fn node_proto(&self, node: &Node) -> NodeProto {
        let name = |value: &Value| self.value_name(*value).to_owned();
        NodeProto {
            input: node.inputs.iter().map(|input| input.as_ref().map(name).unwrap_or_default()).collect(),
            output: node.outputs.iter().map(name).collect(),
            name: Some(node.name.clone()),
            op_type: Some(node.op.to_owned()),
            attribute: node.attributes.iter().map(|(name, attribute)| attribute_proto(name, attribute)).collect(),
            domain: (!node.domain.is_empty()).then(|| node.domain.to_owned()),
            ..NodeProto::default()
        }
    }

    fn tensor_proto(&self, initializer: &Initializer) -> Result<TensorProto> {
        let mut tensor = TensorProto {
            name: Some(self.value_name(initializer.value).to_owned()),
            dims: initializer.shape.iter().map(|&dim| dim as i64).collect(),
            data_type: Some(self.data_type(initializer.value)?),
            ..TensorProto::default()
        };
        match &initializer.data {
            Data::Inline(bytes) => tensor.raw_data = Some(bytes.to_vec()),
            Data::External(data) => {
                tensor.data_location = Some(DataLocation::External as i32);
                tensor.external_data = data.entries();
            }
        }
        Ok(tensor)
    }

    fn value_info(&self, value: Value) -> Result<ValueInfoProto> {
        let dims = self.dims(value);
        let tensor = type_proto::Tensor {
            elem_type: Some(self.data_type(value)?),
            shape: Some(TensorShapeProto { dim: dims.iter().map(|dim| self.dimension(dim)).collect() }),
        };
        Ok(ValueInfoProto {
            name: Some(self.value_name(value).to_owned()),
            r#type: Some(TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() }),
            ..ValueInfoProto::default()
        })
    }

    fn dimension(&self, dim: &Dim) -> Dimension {
        let value = match dim.constant() {
            Some(number) => dimension::Value::DimValue(number),
            None => dimension::Value::DimParam(self.dim_text(dim)),
        };
        Dimension { value: Some(value), denotation: None }
    }

    fn data_type(&self, value: Value) -> Result<i32> {
        let dtype: DType = self.dtype(value);
        plansmith_onnx::data_type(dtype)
            .ok_or_else(|| Error::Invalid(vec![format!("`{}` is {dtype}, which ONNX does not have", self.value_name(value))]))
    }
}

fn attribute_proto(name: &str, attribute: &Attribute) -> AttributeProto {
    let mut proto = AttributeProto { name: Some(name.to_owned()), ..AttributeProto::default() };
    let r#type = match attribute {
        Attribute::Int(value) => {
            proto.i = Some(*value);
            AttributeType::Int
        }
        Attribute::Ints(values) => {
            proto.ints = values.clone();
            AttributeType::Ints
        }
        Attribute::Float(value) => {
            proto.f = Some(*value);
            AttributeType::Float
        }
        Attribute::Text(value) => {
            proto.s = Some(value.as_bytes().to_vec());
            AttributeType::String
        }
    };
    proto.r#type = Some(r#type as i32);
    proto
}

fn entry(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto { key: Some(key.to_owned()), value: Some(value.to_owned()) }
}
