//! In which order nodes could run.

use std::collections::{HashMap, HashSet};

use crate::proto::{GraphProto, NodeProto};

/// Which of `nodes` computes a value.
pub(crate) fn producers(nodes: &[NodeProto]) -> HashMap<&str, usize> {
    let mut producers = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for output in node.output.iter().filter(|output| !output.is_empty()) {
            producers.entry(output.as_str()).or_insert(index);
        }
    }
    producers
}

/// The name of a node of a circle, where no order of `nodes` lets each run after those that it needs.
pub(crate) fn circle<'a>(nodes: &'a [NodeProto], producers: &HashMap<&str, usize>) -> Option<&'a str> {
    let mut waiting = vec![0usize; nodes.len()];
    let mut feeds: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        let needed: HashSet<usize> = needs(node).into_iter().filter_map(|value| producers.get(value).copied()).collect();
        waiting[index] = needed.len();
        needed.into_iter().for_each(|producer| feeds[producer].push(index));
    }
    let mut ready: Vec<usize> = (0..nodes.len()).filter(|&index| waiting[index] == 0).collect();
    while let Some(done) = ready.pop() {
        for &fed in &feeds[done] {
            waiting[fed] -= 1;
            if waiting[fed] == 0 {
                ready.push(fed);
            }
        }
    }
    // What waits for ever is in a circle or behind one: walk back until a node comes again.
    let mut at = (0..nodes.len()).find(|&index| waiting[index] > 0)?;
    let mut seen = HashSet::new();
    while seen.insert(at) {
        at = needs(&nodes[at]).into_iter().filter_map(|value| producers.get(value).copied()).find(|&producer| waiting[producer] > 0)?;
    }
    Some(nodes[at].name())
}

/// Every value that a node or a node inside of it names as an input: of those, only what is around it has a producer.
fn needs(node: &NodeProto) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for inner in with_inner(std::slice::from_ref(node)) {
        found.extend(inner.input.iter().map(String::as_str));
        found.extend(subgraphs(inner).flat_map(|graph| &graph.output).map(|output| output.name()));
    }
    found
}

/// `nodes`, and those of all graphs within them.
pub(crate) fn with_inner(nodes: &[NodeProto]) -> Vec<&NodeProto> {
    let mut found: Vec<&NodeProto> = nodes.iter().collect();
    let mut next = 0;
    while let Some(&node) = found.get(next) {
        found.extend(subgraphs(node).flat_map(|graph| &graph.node));
        next += 1;
    }
    found
}

fn subgraphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute.iter().flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs))
}
