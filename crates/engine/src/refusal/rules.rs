//! The rules, a function each.

use std::collections::HashSet;

use plansmith_onnx::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};
use plansmith_tensor::DType;

use super::facts::{Facts, integer};
use super::operators::{self, Foreign};
use super::{Refusal, Remedy};

/// Head sizes that the Attention operator has kernels for, in multiples of [`HEAD_STEP`].
const HEAD_SIZES: std::ops::RangeInclusive<i64> = 16..=256;
const HEAD_STEP: i64 = 8;

/// Adds what is wrong with `nodes`, and with those of their subgraphs.
pub(super) fn of_nodes(model: &ModelProto, nodes: &[NodeProto], within: Option<&str>, facts: &Facts<'_>, found: &mut Vec<Refusal>) {
    for (index, node) in nodes.iter().enumerate() {
        if let Some((reason, remedy)) = of_node(model, node, facts) {
            found.push(Refusal {
                index,
                name: node.name().to_owned(),
                operator: label(node),
                within: within.map(str::to_owned),
                reason,
                remedy,
            });
        }
        for graph in subgraphs(node) {
            let within = format!("a subgraph of `{}`", node.name());
            of_nodes(model, &graph.node, Some(&within), &Facts::of(graph), found);
        }
    }
}

fn subgraphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute.iter().flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs))
}

fn is_standard(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

fn label(node: &NodeProto) -> String {
    if is_standard(node.domain()) { node.op_type().to_owned() } else { format!("{} {}", node.domain(), node.op_type()) }
}

fn has_input(node: &NodeProto, index: usize) -> bool {
    node.input.get(index).is_some_and(|input| !input.is_empty())
}

fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeProto> {
    node.attribute.iter().find(|attribute| attribute.name() == name)
}

fn of_node(model: &ModelProto, node: &NodeProto, facts: &Facts<'_>) -> Option<(String, Remedy)> {
    if !is_standard(node.domain()) {
        let defined = |function: &&plansmith_onnx::proto::FunctionProto| {
            function.domain() == node.domain() && function.name() == node.op_type() && function.overload() == node.overload()
        };
        return if model.functions.iter().any(|function| defined(&function)) { None } else { foreign(node) };
    }
    match node.op_type() {
        operator if operators::is_missing(operator) => Some(("TensorRT has no such operator".to_owned(), remedy_for(operator))),
        "Attention" => attention(node, facts),
        "RotaryEmbedding" if integer(node, "interleaved") == Some(1) && attends(model) => Some((
            "it rotates neighbours (interleaved = 1) before Attention, at which TensorRT's compiler stops".to_owned(),
            Remedy::Dialect,
        )),
        "DequantizeLinear" => dequantize(node, facts),
        _ => None,
    }
}

/// Alone, a rotation of neighbours builds.
fn attends(model: &ModelProto) -> bool {
    model.graph.iter().flat_map(|graph| &graph.node).any(|node| is_standard(node.domain()) && node.op_type() == "Attention")
}

fn remedy_for(operator: &str) -> Remedy {
    if operators::is_quantised(operator) { Remedy::Unquantised } else { Remedy::Dialect }
}

fn foreign(node: &NodeProto) -> Option<(String, Remedy)> {
    let reason = match operators::foreign(node.domain(), node.op_type()) {
        Foreign::Taken => return contrib(node),
        Foreign::Plugin => "TensorRT takes it as a plugin only, which its libraries do not hold",
        Foreign::Unknown if node.domain() == "com.microsoft" => "an operator of ONNX Runtime that TensorRT does not have",
        Foreign::Unknown => "neither an operator that TensorRT has nor a function of the model",
    };
    Some((reason.to_owned(), remedy_for(node.op_type())))
}

/// Operators of ONNX Runtime that are taken in some forms only.
fn contrib(node: &NodeProto) -> Option<(String, Remedy)> {
    let reason = match node.op_type() {
        "RotaryEmbedding" if integer(node, "num_heads") == Some(0) => "its num_heads is 0, by which TensorRT's parser divides, and dies",
        "MultiHeadAttention" if has_more_outputs(node) => "it keeps the cache itself; TensorRT takes MultiHeadAttention with one output",
        _ => return None,
    };
    Some((reason.to_owned(), Remedy::Dialect))
}

fn has_more_outputs(node: &NodeProto) -> bool {
    node.output.iter().skip(1).any(|output| !output.is_empty())
}

/// Inputs: query, key, value, mask, past key, past value, lengths.
fn attention(node: &NodeProto, facts: &Facts<'_>) -> Option<(String, Remedy)> {
    let past = has_input(node, 4) || has_input(node, 5);
    let because = |reason: &str| Some((reason.to_owned(), Remedy::Dialect));
    if past || has_more_outputs(node) {
        return because("it keeps the cache itself; TensorRT takes Attention with one output, the cache put together outside");
    }
    if has_input(node, 6) {
        return because("has nonpad_kv_seqlen, which TensorRT drops in silence; use a mask");
    }
    if attribute(node, "softcap").is_some_and(|cap| cap.f() != 0.0) {
        return because("it has a soft cap, which TensorRT's Attention does not");
    }
    if attribute(node, "softmax_precision").is_some() {
        return because("it sets softmax_precision, which TensorRT's Attention does not have");
    }
    if has_input(node, 3) && integer(node, "is_causal") == Some(1) {
        return because("it has a mask and is_causal; TensorRT takes one of them");
    }
    let written_out = |reason: String| Some((reason, Remedy::WrittenOut));
    let query = node.input.first()?;
    if facts.dtype(query) == Some(DType::F32) {
        return written_out("it computes in fp32; TensorRT's Attention has fp16 and bf16 only".to_owned());
    }
    // With the number of heads given, the last dimension is that of all heads.
    let size = match integer(node, "q_num_heads") {
        Some(heads) if heads > 0 => facts.last_dim(query).map(|width| width / heads),
        _ => node.input.iter().take(3).find_map(|input| facts.last_dim(input)),
    };
    let size = size.filter(|size| !HEAD_SIZES.contains(size) || size % HEAD_STEP != 0)?;
    let (least, most) = (HEAD_SIZES.start(), HEAD_SIZES.end());
    written_out(format!("its heads have {size} elements; TensorRT's Attention takes multiples of {HEAD_STEP} from {least} to {most}"))
}

fn dequantize(node: &NodeProto, facts: &Facts<'_>) -> Option<(String, Remedy)> {
    let because = |reason: &str| Some((reason.to_owned(), Remedy::Unquantised));
    if matches!(facts.dtype_name(node.input.first()?), Some("UINT4" | "UINT8")) {
        return because("its elements are unsigned, which TensorRT does not take");
    }
    let zero_point = node.input.get(2).and_then(|name| facts.constant(name));
    if zero_point.is_some_and(has_nonzero) {
        return because("its zero point is not zero; TensorRT takes symmetric quantisation only");
    }
    None
}

/// Whether inline data holds anything but zeros.
fn has_nonzero(tensor: &TensorProto) -> bool {
    tensor.raw_data().iter().any(|byte| *byte != 0) || tensor.int32_data.iter().any(|value| *value != 0)
}

/// Inputs of the graph that no node reads: TensorRT drops them, and with them what they mean.
pub(crate) fn unread_inputs(model: &ModelProto) -> Vec<String> {
    let Some(graph) = &model.graph else { return Vec::new() };
    let mut read = HashSet::new();
    let mut graphs = vec![graph];
    while let Some(graph) = graphs.pop() {
        read.extend(graph.output.iter().map(|output| output.name()));
        read.extend(graph.node.iter().flat_map(|node| &node.input).map(String::as_str));
        graphs.extend(graph.node.iter().flat_map(subgraphs));
    }
    let given: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name()).collect();
    let unread = graph.input.iter().map(|input| input.name()).filter(|name| !read.contains(name) && !given.contains(name));
    unread.map(str::to_owned).collect()
}
