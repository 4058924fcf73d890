//! Which values of a graph may be those that a reference has at its taps.

use std::collections::{BTreeMap, HashSet};

use plansmith_onnx::ModelProto;
use plansmith_onnx::proto::{GraphProto, NodeProto};
use plansmith_tensor::Tap;

/// Values of a graph by name.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Places {
    /// Those that are known: a graph of ours says in its nodes' names what they are.
    pub(crate) named: BTreeMap<Tap, String>,
    /// Every value that depends on an input and is no output, in the graph's order, which is one of computation.
    pub(crate) all: Vec<String>,
}

impl Places {
    /// Of the main graph; values within the branches of `If` and the bodies of `Loop` cannot be looked at.
    pub(crate) fn of(model: &ModelProto) -> Self {
        let Some(graph) = &model.graph else { return Self::default() };
        Self { named: named(graph), all: dynamic(graph) }
    }
}

fn output(node: &NodeProto) -> Option<String> {
    node.output.iter().find(|name| !name.is_empty()).cloned()
}

fn dynamic(graph: &GraphProto) -> Vec<String> {
    let initialisers: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name()).collect();
    let mut known: HashSet<&str> = graph.input.iter().map(|input| input.name()).filter(|name| !initialisers.contains(name)).collect();
    let outputs: HashSet<&str> = graph.output.iter().map(|output| output.name()).collect();
    let mut all = Vec::new();
    for node in &graph.node {
        if node.input.iter().any(|input| known.contains(input.as_str())) {
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                known.insert(name);
                if !outputs.contains(name.as_str()) {
                    all.push(name.clone());
                }
            }
        }
    }
    all
}

/// The layer whose scope `name` lies in: `/model/layers.3/mlp/down_proj/Gemm` gives 3 and the rest behind the slash.
fn in_layer(name: &str) -> Option<(usize, &str)> {
    let (number, rest) = name.strip_prefix("/model/layers.")?.split_once('/')?;
    Some((number.parse().ok()?, rest))
}

/// By the scopes that `plansmith-lowering` gives: the last node of a scope gives its result.
fn named(graph: &GraphProto) -> BTreeMap<Tap, String> {
    let mut named = BTreeMap::new();
    let mut last = None;
    for node in &graph.node {
        let Some(value) = output(node) else { continue };
        if let Some((layer, rest)) = in_layer(node.name()) {
            if let Some(value) = last.take() {
                named.entry(Tap::Embedding).or_insert(value);
            }
            named.insert(Tap::Layer(layer), value.clone());
            match rest {
                "self_attn/o_proj/Gemm" => named.insert(Tap::Attention(layer), value),
                "mlp/down_proj/Gemm" => named.insert(Tap::Mlp(layer), value),
                _ => None,
            };
        } else if node.name().starts_with("/model/norm/") {
            named.insert(Tap::FinalNorm, value);
        } else if node.name().starts_with("/model/") && !named.contains_key(&Tap::Embedding) {
            last = Some(value);
        }
    }
    if named.contains_key(&Tap::Layer(0)) { named } else { BTreeMap::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plansmith_onnx::proto::{TensorProto, ValueInfoProto};

    fn graph(nodes: &[(&str, &[&str], &str)]) -> ModelProto {
        let node = |(name, inputs, output): &(&str, &[&str], &str)| NodeProto {
            name: Some((*name).to_owned()),
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![(*output).to_owned()],
            ..NodeProto::default()
        };
        let input = |name: &str| ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() };
        let graph = GraphProto {
            node: nodes.iter().map(node).collect(),
            input: vec![input("ids"), input("w")],
            output: vec![input("logits")],
            initializer: vec![TensorProto { name: Some("w".to_owned()), ..TensorProto::default() }],
            ..GraphProto::default()
        };
        ModelProto { graph: Some(graph), ..ModelProto::default() }
    }

    #[test]
    fn our_scopes_say_what_a_value_is() {
        let model = graph(&[
            ("/model/mask/Range", &["ids"], "mask"),
            ("/model/embed_tokens/Gather", &["w", "ids"], "rows"),
            ("/model/embed_tokens/Mul", &["rows"], "x0"),
            ("/model/layers.0/self_attn/o_proj/Gemm", &["x0"], "attended"),
            ("/model/layers.0/Add", &["x0", "attended"], "x1"),
            ("/model/layers.0/mlp/down_proj/Gemm", &["x1"], "fed"),
            ("/model/layers.0/Add_1", &["x1", "fed"], "x2"),
            ("/model/norm/RMSNormalization", &["x2"], "normed"),
            ("/lm_head/Gemm", &["normed"], "flat"),
        ]);
        let named: Vec<(String, String)> = Places::of(&model).named.into_iter().map(|(tap, value)| (tap.to_string(), value)).collect();
        let wanted = [
            ("embedding", "x0"),
            ("layers.0.self_attn", "attended"),
            ("layers.0.mlp", "fed"),
            ("layers.0", "x2"),
            ("final_norm", "normed"),
        ];
        assert_eq!(named, wanted.map(|(tap, value)| (tap.to_owned(), value.to_owned())));
    }

    #[test]
    fn values_that_no_input_reaches_are_left_out() {
        let model = graph(&[
            ("cast", &["w"], "wide"),
            ("gather", &["wide", "ids"], "rows"),
            ("shape", &["rows"], "size"),
            ("head", &["rows"], "logits"),
        ]);
        assert_eq!(Places::of(&model), Places { named: BTreeMap::new(), all: vec!["rows".to_owned(), "size".to_owned()] });
    }
}
