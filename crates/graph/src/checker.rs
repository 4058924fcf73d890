//! The rules of the ONNX IR that a graph's structure must keep, checked on any model.

use std::collections::HashSet;

use plansmith_onnx::proto::{AttributeProto, GraphProto, ModelProto, NodeProto};

/// What [`check`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Broken rules, one sentence each; a runtime would refuse the model or compute something else.
    pub errors: Vec<String>,
    /// Initialisers that nothing uses: harmless, but every load warns of them.
    pub unused_initializers: Vec<String>,
}

/// Checks the structure of `model`, ours or foreign.
///
/// Each value is defined once (inputs, initialisers, node outputs) and before its use, names of inputs, outputs and nodes are unique,
/// every output is defined, every operator's domain imported. Subgraphs see the values around them. Types are not looked at.
pub fn check(model: &ModelProto) -> Findings {
    let mut findings = Findings::default();
    let Some(graph) = &model.graph else {
        findings.errors.push("the model holds no graph".to_owned());
        return findings;
    };
    let mut domains = HashSet::new();
    for import in &model.opset_import {
        if !domains.insert(domain(import.domain())) {
            findings.errors.push(format!("the operator set `{}` is imported twice", import.domain()));
        }
    }
    let mut checker = Checker { domains, used: HashSet::new(), node_names: HashSet::new(), findings };
    checker.graph(graph, &mut HashSet::new());
    checker.findings
}

/// `ai.onnx` is another name of the standard domain.
fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

/// Names of the values that can be seen.
type Scope<'a> = HashSet<&'a str>;

struct Checker<'a> {
    domains: HashSet<&'a str>,
    used: HashSet<&'a str>,
    node_names: HashSet<&'a str>,
    findings: Findings,
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
                self.findings.errors.push(format!("the initialiser `{name}` is defined twice"));
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
                self.findings.errors.push(format!("the output `{name}` is listed twice"));
            } else if !scope.contains(name) {
                self.findings.errors.push(format!("the output `{name}` is computed by no node"));
            }
            self.used.insert(name);
        }
        for name in graph.initializer.iter().map(|tensor| tensor.name()) {
            if !self.used.contains(name) {
                self.findings.unused_initializers.push(name.to_owned());
            }
        }
    }

    fn node(&mut self, node: &'a NodeProto, scope: &mut Scope<'a>) {
        let name = node.name();
        if !name.is_empty() && !self.node_names.insert(name) {
            self.findings.errors.push(format!("two nodes are named `{name}`"));
        }
        if !self.domains.contains(domain(node.domain())) {
            self.findings.errors.push(format!("node `{name}`: no operator set of domain `{}` is imported", node.domain()));
        }
        for input in node.input.iter().map(String::as_str).filter(|input| !input.is_empty()) {
            if !scope.contains(input) {
                self.findings.errors.push(format!("node `{name}` uses `{input}`, which nothing before it defines"));
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
            self.findings.errors.push(format!("{what} has no name"));
        } else if !scope.insert(name) {
            self.findings.errors.push(format!("{what} `{name}` is defined twice"));
        }
    }
}
