//! Walks over all that carries a dtype in a graph.

use plansmith_onnx::proto::attribute_proto::AttributeType;
use plansmith_onnx::proto::tensor_proto::DataType;
use plansmith_onnx::proto::type_proto::Value as TypeValue;
use plansmith_onnx::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};

/// Calls `visit` for every dense tensor of the model, those of attributes, subgraphs and functions too.
pub(crate) fn for_each_tensor<E>(model: &mut ModelProto, visit: &mut dyn FnMut(&mut TensorProto) -> Result<(), E>) -> Result<(), E> {
    if let Some(graph) = &mut model.graph {
        in_graph(graph, visit)?;
    }
    for function in &mut model.functions {
        in_nodes(&mut function.node, visit)?;
    }
    Ok(())
}

fn in_graph<E>(graph: &mut GraphProto, visit: &mut dyn FnMut(&mut TensorProto) -> Result<(), E>) -> Result<(), E> {
    graph.initializer.iter_mut().try_for_each(&mut *visit)?;
    in_nodes(&mut graph.node, visit)
}

/// Depth is bounded by that of the decoder.
fn in_nodes<E>(nodes: &mut [NodeProto], visit: &mut dyn FnMut(&mut TensorProto) -> Result<(), E>) -> Result<(), E> {
    for attribute in nodes.iter_mut().flat_map(|node| &mut node.attribute) {
        attribute.t.iter_mut().chain(&mut attribute.tensors).try_for_each(&mut *visit)?;
        for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
            in_graph(graph, visit)?;
        }
    }
    Ok(())
}

/// Declares every bf16 value as fp32 and turns casts to bf16 into casts to fp32. Tensors' own dtypes are left.
pub(crate) fn widen_declarations(model: &mut ModelProto) {
    if let Some(graph) = &mut model.graph {
        widen_graph(graph);
    }
    for function in &mut model.functions {
        widen_nodes(&mut function.node);
    }
}

fn widen_graph(graph: &mut GraphProto) {
    for info in graph.input.iter_mut().chain(&mut graph.output).chain(&mut graph.value_info) {
        if let Some(TypeValue::TensorType(tensor)) = info.r#type.as_mut().and_then(|r#type| r#type.value.as_mut())
            && tensor.elem_type == Some(DataType::Bfloat16 as i32)
        {
            tensor.elem_type = Some(DataType::Float as i32);
        }
    }
    widen_nodes(&mut graph.node);
}

fn widen_nodes(nodes: &mut [NodeProto]) {
    for attribute in nodes.iter_mut().flat_map(|node| &mut node.attribute) {
        if names_bf16(attribute) {
            attribute.i = Some(DataType::Float as i64);
        }
        for graph in attribute.g.iter_mut().chain(&mut attribute.graphs) {
            widen_graph(graph);
        }
    }
}

/// Whether the attribute is one of those that hold an element type, and holds bf16.
fn names_bf16(attribute: &AttributeProto) -> bool {
    let holds_type = matches!(attribute.name(), "to" | "dtype" | "output_dtype" | "softmax_precision" | "stash_type");
    holds_type && attribute.r#type() == AttributeType::Int && attribute.i() == DataType::Bfloat16 as i64
}
