//! The rules of the ONNX IR that a graph's structure must keep, checked on any model.

use std::collections::{HashMap, HashSet};

use crate::order;
use crate::proto::{AttributeProto, GraphProto, ModelProto, NodeProto};
use crate::quote::quoted;

/// What [`check`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Broken rules, one sentence each; a runtime would refuse the model or compute something else.
    pub errors: Vec<String>,
    /// Names that two nodes share: legible graphs have none, and no runtime minds.
    pub shared_node_names: Vec<String>,
    /// Initialisers that nothing uses: harmless, but every load warns of them.
    pub unused_initializers: Vec<String>,
}

/// Checks the structure of `model`, ours or foreign.
///
/// Each value is defined once (inputs, initialisers, node outputs) and before its use, names of inputs and outputs are unique, every output
/// is defined, every node has an operator and every operator's domain is imported. Subgraphs see the values around them. Types are not
/// looked at. Takes time and memory in proportion to the model's size.
pub fn check(model: &ModelProto) -> Findings {
    let mut findings = Findings::default();
    let Some(graph) = &model.graph else {
        findings.errors.push("the model holds no graph".to_owned());
        return findings;
    };
    let mut checker =
        Checker { domains: HashSet::new(), used: HashSet::new(), node_names: HashSet::new(), scope: HashSet::new(), findings };
    if model.opset_import.is_empty() {
        checker.findings.errors.push("the model imports no operator set".to_owned());
    }
    for import in &model.opset_import {
        if !checker.domains.insert(domain(import.domain())) {
            checker.findings.errors.push(format!("the operator set {} is imported twice", quoted(import.domain())));
        }
    }
    checker.graph(graph);
    for function in &model.functions {
        // What is around the call cannot be seen from inside.
        let mut body = Checker { scope: HashSet::new(), node_names: HashSet::new(), used: HashSet::new(), ..Checker::default() };
        body.domains = function.opset_import.iter().map(|import| domain(import.domain())).collect();
        for input in &function.input {
            body.define(input, "the input");
        }
        body.nodes(&function.node);
        for output in function.output.iter().filter(|output| !body.scope.contains(output.as_str())) {
            body.findings.errors.push(format!("the output {} is computed by no node", quoted(output)));
        }
        let name = quoted(function.name());
        checker.findings.errors.extend(body.findings.errors.into_iter().map(|error| format!("in function {name}: {error}")));
    }
    checker.findings
}

/// `ai.onnx` is another name of the standard domain.
pub(crate) fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

#[derive(Default)]
struct Checker<'a> {
    domains: HashSet<&'a str>,
    used: HashSet<&'a str>,
    node_names: HashSet<&'a str>,
    /// Names of the values that can be seen.
    scope: HashSet<&'a str>,
    findings: Findings,
}

impl<'a> Checker<'a> {
    /// Checks a graph; returns the names that it defined, which are those to forget behind a subgraph. Depth is bounded by that of the
    /// decoder.
    fn graph(&mut self, graph: &'a GraphProto) -> Vec<&'a str> {
        let inputs: HashSet<&str> = graph.input.iter().map(|input| input.name()).collect();
        let mut defined: Vec<&str> =
            graph.input.iter().filter(|input| self.define(input.name(), "the input")).map(|input| input.name()).collect();
        let sparse = graph.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref());
        let mut initialisers = HashSet::new();
        for tensor in graph.initializer.iter().chain(sparse) {
            let name = tensor.name();
            if !initialisers.insert(name) {
                self.findings.errors.push(format!("the initialiser {} is defined twice", quoted(name)));
            } else if !inputs.contains(name) && self.define(name, "the initialiser") {
                // IR version 3 lists initialisers as inputs, later ones may: it is a default value then.
                defined.push(name);
            }
        }
        defined.extend(self.nodes(&graph.node));
        let mut outputs = HashSet::new();
        for output in &graph.output {
            let name = output.name();
            if !outputs.insert(name) {
                self.findings.errors.push(format!("the output {} is listed twice", quoted(name)));
            } else if !self.scope.contains(name) {
                self.findings.errors.push(format!("the output {} is computed by no node", quoted(name)));
            }
            self.used.insert(name);
        }
        for name in graph.initializer.iter().map(|tensor| tensor.name()) {
            if !self.used.contains(name) {
                self.findings.unused_initializers.push(name.to_owned());
            }
        }
        defined
    }

    /// Checks nodes in their order; returns the names that they defined.
    fn nodes(&mut self, nodes: &'a [NodeProto]) -> Vec<&'a str> {
        let mut later: Option<HashMap<&str, usize>> = None;
        let mut told = false;
        let mut defined = Vec::new();
        for node in nodes {
            let name = node.name();
            if !name.is_empty() && !self.node_names.insert(name) {
                self.findings.shared_node_names.push(name.to_owned());
            }
            if node.op_type().is_empty() {
                self.findings.errors.push(format!("node {} has no operator", quoted(name)));
            }
            if !self.domains.contains(domain(node.domain())) {
                let problem = format!("node {}: no operator set of domain {} is imported", quoted(name), quoted(node.domain()));
                self.findings.errors.push(problem);
            }
            for input in node.input.iter().map(String::as_str).filter(|input| !input.is_empty()) {
                if !self.scope.contains(input) {
                    let producers = later.get_or_insert_with(|| order::producers(nodes));
                    let (name, value) = (quoted(name), quoted(input));
                    if !producers.contains_key(input) {
                        self.findings.errors.push(format!("node {name} uses {value}, which nothing before it defines"));
                    } else if !std::mem::replace(&mut told, true) {
                        // One sentence for all of them: what is out of order is so many times over.
                        self.findings.errors.push(match order::circle(nodes, producers) {
                            Some(first) => format!("nodes feed each other in a circle that node {} is part of", quoted(first)),
                            None => format!("node {name} uses {value}, which a later node defines: nodes must be in order"),
                        });
                    }
                }
                self.used.insert(input);
            }
            for AttributeProto { g, graphs, .. } in &node.attribute {
                for graph in g.iter().chain(graphs) {
                    for name in self.graph(graph) {
                        self.scope.remove(name);
                    }
                }
            }
            let outputs = node.output.iter().map(String::as_str).filter(|output| !output.is_empty());
            defined.extend(outputs.filter(|output| self.define(output, "the value")));
        }
        defined
    }

    /// Whether `name` is new.
    fn define(&mut self, name: &'a str, what: &str) -> bool {
        let new = !name.is_empty() && self.scope.insert(name);
        if name.is_empty() {
            self.findings.errors.push(format!("{what} has no name"));
        } else if !new {
            self.findings.errors.push(format!("{what} {} is defined twice", quoted(name)));
        }
        new
    }
}
