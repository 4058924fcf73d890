//! Which output carries on which cache input, by the nodes between them.

use std::collections::{HashMap, HashSet};

use plansmith_onnx::ModelProto;
use plansmith_onnx::proto::NodeProto;

/// Follows cache inputs to the outputs that hold the same and what is new.
pub(super) struct Links<'a> {
    consumers: HashMap<&'a str, Vec<&'a NodeProto>>,
    outputs: HashSet<&'a str>,
}

impl<'a> Links<'a> {
    pub(super) fn of(model: &'a ModelProto) -> Self {
        let mut consumers: HashMap<&str, Vec<&NodeProto>> = HashMap::new();
        let graph = model.graph.as_ref();
        for node in graph.iter().flat_map(|graph| &graph.node) {
            for input in &node.input {
                consumers.entry(input).or_default().push(node);
            }
        }
        Self { consumers, outputs: graph.iter().flat_map(|graph| &graph.output).map(|output| output.name()).collect() }
    }

    /// The output that `past`, through one node that appends to it, becomes; `None` where there is none, or more than one.
    pub(super) fn present(&self, past: &'a str) -> Option<&'a str> {
        let mut found = HashSet::new();
        let mut seen = HashSet::new();
        let mut queue = vec![(past, false)];
        while let Some((value, appended)) = queue.pop() {
            if !seen.insert((value, appended)) {
                continue;
            }
            if appended && self.outputs.contains(value) {
                found.insert(value);
            }
            for node in self.consumers.get(value).into_iter().flatten() {
                let same = matches!(node.op_type(), "Identity" | "Cast");
                let next = if same {
                    node.output.first()
                } else if appended {
                    None
                } else {
                    appending(node, value)
                };
                queue.extend(next.map(|next| (next.as_str(), appended || !same)));
            }
        }
        let only = found.iter().next().copied();
        only.filter(|_| found.len() == 1)
    }
}

/// The output of `node` that holds its cache input `value` and what is new.
fn appending<'a>(node: &'a NodeProto, value: &str) -> Option<&'a String> {
    let input = node.input.iter().position(|input| input == value)?;
    let output = match (node.op_type(), input) {
        ("Concat", _) | ("TensorScatter", 0) => 0,
        ("GroupQueryAttention", 3) | ("Attention", 4) => 1,
        ("GroupQueryAttention", 4) | ("Attention", 5) => 2,
        _ => return None,
    };
    node.output.get(output)
}
