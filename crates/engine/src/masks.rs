//! The masks that attention is given, by what the graph says of them.

use std::collections::{BTreeSet, HashMap};

use plansmith_onnx::ModelProto;
use plansmith_onnx::proto::{GraphProto, NodeProto, TensorProto};

/// TensorRT adds masks to scores: of truth values too it makes numbers of the type that attention computes in, which has two bytes.
const ELEMENT: u64 = 2;

/// Bytes of all masks for one row of the batch, one new token and one token that it may see: each mask once, however many layers read it, and
/// once for each row that it is repeated for.
pub(crate) fn mask_bytes(model: &ModelProto) -> u64 {
    let Some(graph) = &model.graph else { return 0 };
    let made: HashMap<&str, &NodeProto> =
        graph.node.iter().flat_map(|node| node.output.iter().map(move |output| (output.as_str(), node))).collect();
    let attention = graph.node.iter().filter(|node| node.op_type() == "Attention" && node.domain().is_empty());
    let masks: BTreeSet<&str> =
        attention.filter_map(|node| node.input.get(3)).map(String::as_str).filter(|name| !name.is_empty()).collect();
    masks.into_iter().map(|mask| copies(graph, &made, mask).saturating_mul(ELEMENT)).fold(0, u64::saturating_add)
}

/// How often a mask is repeated, as far as it is by constants: each key head's rows of the batch have their own.
fn copies(graph: &GraphProto, made: &HashMap<&str, &NodeProto>, mask: &str) -> u64 {
    let (mut copies, mut name) = (1_u64, mask);
    // A graph that is a circle is refused elsewhere; here it only has to end.
    for _ in 0..graph.node.len() {
        let Some(node) = made.get(name) else { break };
        match node.op_type() {
            "Expand" | "Tile" => {
                let times = node.input.get(1).map(|shape| numbers(graph, made, shape)).unwrap_or_default();
                copies = times
                    .into_iter()
                    .filter_map(|times| u64::try_from(times).ok())
                    .filter(|&times| times > 0)
                    .fold(copies, u64::saturating_mul);
            }
            "Reshape" | "Cast" | "Unsqueeze" | "Identity" => {}
            _ => break,
        }
        let Some(input) = node.input.first() else { break };
        name = input;
    }
    copies
}

/// A constant of int64; empty where it is none.
fn numbers(graph: &GraphProto, made: &HashMap<&str, &NodeProto>, name: &str) -> Vec<i64> {
    let initialiser = graph.initializer.iter().find(|tensor| tensor.name() == name);
    let constant =
        || made.get(name).filter(|node| node.op_type() == "Constant")?.attribute.iter().find_map(|attribute| attribute.t.as_ref());
    let read = |tensor: &TensorProto| match &tensor.raw_data {
        Some(raw) => raw.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect(),
        None => tensor.int64_data.clone(),
    };
    initialiser.or_else(constant).map(read).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(operator: &str, inputs: &[&str], output: &str) -> NodeProto {
        let input = inputs.iter().map(|&input| input.to_owned()).collect();
        NodeProto { op_type: Some(operator.to_owned()), input, output: vec![output.to_owned()], ..NodeProto::default() }
    }

    #[test]
    fn a_mask_counts_once_and_as_often_as_it_is_repeated() {
        let shape = |raw: &[i64]| TensorProto {
            name: Some("times".to_owned()),
            raw_data: Some(raw.iter().flat_map(|number| number.to_le_bytes()).collect()),
            ..TensorProto::default()
        };
        let graph = |attention: &[NodeProto]| {
            let mask = [
                node("And", &["causal", "padding"], "m"),
                node("Expand", &["m", "times"], "each"),
                node("Reshape", &["each", "rows"], "r"),
            ];
            let graph = GraphProto { node: [&mask, attention].concat(), initializer: vec![shape(&[1, 3, 1, 1])], ..GraphProto::default() };
            mask_bytes(&ModelProto { graph: Some(graph), ..ModelProto::default() })
        };
        let attention = |mask: &str, output: &str| node("Attention", &["q", "k", "v", mask], output);
        assert_eq!(graph(&[attention("m", "a"), attention("m", "b")]), 2);
        assert_eq!(graph(&[attention("r", "a"), attention("r", "b")]), 6);
        assert_eq!(
            graph(&[attention("r", "a"), attention("m", "b"), attention("given", "c"), node("Attention", &["q", "k", "v"], "d")]),
            10
        );
        assert_eq!(graph(&[node("MatMul", &["q", "k"], "a")]), 0);
    }
}
