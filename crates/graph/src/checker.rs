//! The rules of the ONNX IR that a graph's structure must keep, checked on any model.

use std::collections::HashSet;

use plansmith_onnx::proto::{AttributeProto, GraphProto, ModelProto, NodeProto};

/// What breaks the rules in `model`; empty where nothing does.
///
/// Each value is defined once (inputs, initialisers, node outputs) and before its use, names of inputs, outputs and nodes are unique,
/// every output is defined, every initialiser used, every operator's domain imported. Subgraphs see the values around them.
pub fn check(model: &ModelProto) -> Vec<String> {
    let mut problems = Vec::new();
    let Some(graph) = &model.graph else { return vec!["the model holds no graph".to_owned()] };
    let mut domains = HashSet::new();
    for import in &model.opset_import {
        if !domains.insert(domain(import.domain())) {
            problems.push(format!("the operator set `{}` is imported twice", import.domain()));
        }
    }
    let mut checker = Checker { domains, used: HashSet::new(), node_names: HashSet::new(), problems };
    checker.graph(graph, &mut Scope::default());
    checker.problems
}

/// `ai.onnx` is another name of the standard domain.
fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

/// The values that can be seen.
#[derive(Default, Clone)]
struct Scope<'a> {
    defined: HashSet<&'a str>,
}

struct Checker<'a> {
    domains: HashSet<&'a str>,
    used: HashSet<&'a str>,
    node_names: HashSet<&'a str>,
    problems: Vec<String>,
}

impl<'a> Checker<'a> {
    /// Depth is bounded by that of the decoder.
    fn graph(&mut self, graph: &'a GraphProto, scope: &mut Scope<'a>) {
        let inputs: HashSet<&str> = graph.input.iter().map(|input| input.name()).collect();
        for input in &graph.input {
            self.define(scope, input.name(), "the input");
        }
        let sparse = graph.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref());
        let mut initialisers = HashSet::new();
        for tensor in graph.initializer.iter().chain(sparse) {
            let name = tensor.name();
            if !initialisers.insert(name) {
                self.problems.push(format!("the initialiser `{name}` is defined twice"));
            } else if !inputs.contains(name) {
                // IR version 3 lists initialisers as inputs, later ones may: it is a default value then.
                self.define(scope, name, "the initialiser");
            }
        }
        for node in &graph.node {
            self.node(node, scope);
        }
        let mut outputs = HashSet::new();
        for output in &graph.output {
            let name = output.name();
            if !outputs.insert(name) {
                self.problems.push(format!("the output `{name}` is listed twice"));
            } else if !scope.defined.contains(name) {
                self.problems.push(format!("the output `{name}` is computed by no node"));
            }
            self.used.insert(name);
        }
        for name in graph.initializer.iter().map(|tensor| tensor.name()) {
            if !self.used.contains(name) {
                self.problems.push(format!("no node uses the initialiser `{name}`"));
            }
        }
    }

    fn node(&mut self, node: &'a NodeProto, scope: &mut Scope<'a>) {
        let name = node.name();
        if !name.is_empty() && !self.node_names.insert(name) {
            self.problems.push(format!("two nodes are named `{name}`"));
        }
        if !self.domains.contains(domain(node.domain())) {
            self.problems.push(format!("node `{name}`: no operator set of domain `{}` is imported", node.domain()));
        }
        for input in node.input.iter().map(String::as_str).filter(|input| !input.is_empty()) {
            if !scope.defined.contains(input) {
                self.problems.push(format!("node `{name}` uses `{input}`, which nothing before it defines"));
            }
            self.used.insert(input);
        }
        for AttributeProto { g, graphs, .. } in &node.attribute {
            for graph in g.iter().chain(graphs) {
                self.graph(graph, &mut scope.clone());
            }
        }
        for output in node.output.iter().map(String::as_str).filter(|output| !output.is_empty()) {
            self.define(scope, output, "the value");
        }
    }

    fn define(&mut self, scope: &mut Scope<'a>, name: &'a str, what: &str) {
        if name.is_empty() {
            self.problems.push(format!("{what} has no name"));
        } else if !scope.defined.insert(name) {
            self.problems.push(format!("{what} `{name}` is defined twice"));
        }
    }
}
