//! What TensorRT would refuse, drop in silence or die of, told from the graph alone: before a worker starts, and with the way out.
//!
//! TensorRT's parser stops at the first node that it does not take, and of some it dies. So the nodes are looked at here first, all of
//! them. The rules were measured with TensorRT for RTX 1.7.1; what they do not know is left to the parser.

mod facts;
mod operators;
mod rules;

use std::collections::BTreeMap;
use std::fmt;

use plansmith_onnx::ModelProto;
use serde::Serialize;

pub(crate) use rules::unread_inputs;

use facts::Facts;

/// What makes a graph that TensorRT takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// Another dialect: the operators are those of another runtime.
    Dialect,
    /// Attention written out, which the dialect chooses for what the Attention operator cannot do there.
    WrittenOut,
    /// Weights that are not quantised.
    Unquantised,
}

impl Remedy {
    /// The next step as a sentence.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Dialect => {
                "write the graph from its checkpoint in operators that TensorRT has: `plansmith export CHECKPOINT -o DIR --dialect tensorrt`"
            }
            Self::WrittenOut => {
                "`plansmith export CHECKPOINT -o DIR --dialect tensorrt` writes attention in the form that TensorRT takes for this model; \
                 with `--dtype fp16` that is mostly the Attention operator, which builds twice as fast"
            }
            Self::Unquantised => {
                "export the checkpoint as it was before it was quantised: `plansmith export CHECKPOINT -o DIR --dialect tensorrt --dtype fp16`"
            }
        }
    }
}

/// A node that TensorRT does not take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Where it is among its graph's nodes.
    pub index: usize,
    /// Its name; may be empty.
    pub name: String,
    /// Its operator, behind its domain where that is not the standard's.
    pub operator: String,
    /// The function or subgraph that it is in; absent in the main graph.
    pub within: Option<String>,
    /// What is wrong with it.
    pub reason: String,
    /// What to do.
    pub remedy: Remedy,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.index)?;
        if !self.name.is_empty() {
            write!(f, " `{}`", self.name.escape_debug())?;
        }
        write!(f, " ({})", self.operator.escape_debug())?;
        if let Some(within) = &self.within {
            write!(f, " in {}", within.escape_debug())?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// A line for every kind of refusal: the first node of it in full, and how many more there are.
pub(crate) fn grouped(refusals: &[Refusal]) -> Vec<String> {
    let mut kinds: BTreeMap<(&str, &str), (&Refusal, usize)> = BTreeMap::new();
    for refusal in refusals {
        kinds.entry((&refusal.operator, &refusal.reason)).or_insert((refusal, 0)).1 += 1;
    }
    let mut kinds: Vec<_> = kinds.into_values().collect();
    kinds.sort_by_key(|(first, _)| (first.within.is_some(), first.index));
    let line = |(first, count): (&Refusal, usize)| match count {
        1 => first.to_string(),
        _ => format!("{first} (and {} more like it)", count - 1),
    };
    kinds.into_iter().map(line).collect()
}

/// The advice for `refusals`, each sentence once.
pub(crate) fn advice(refusals: &[Refusal]) -> Option<String> {
    let mut remedies: Vec<Remedy> = refusals.iter().map(|refusal| refusal.remedy).collect();
    remedies.sort_unstable();
    remedies.dedup();
    // Where weights are quantised, exporting from before that is what solves the rest as well.
    if remedies.contains(&Remedy::Unquantised) {
        remedies.retain(|remedy| *remedy == Remedy::Unquantised);
    } else if remedies.contains(&Remedy::Dialect) {
        remedies.retain(|remedy| *remedy == Remedy::Dialect);
    }
    remedies.first().map(|remedy| remedy.advice().to_owned())
}

/// Every node of `model` that TensorRT does not take, in order: those of the main graph, of its subgraphs, of functions.
///
/// Takes time in proportion to the graph; reads no weights but inline zero points.
pub fn refusals(model: &ModelProto) -> Vec<Refusal> {
    let Some(graph) = &model.graph else { return Vec::new() };
    let facts = Facts::of(graph);
    let mut found = Vec::new();
    rules::of_nodes(model, &graph.node, None, &facts, &mut found);
    for function in &model.functions {
        let within = format!("function `{}`", function.name());
        rules::of_nodes(model, &function.node, Some(&within), &Facts::default(), &mut found);
    }
    found
}

/// Who made the graph, as it says itself.
pub(crate) fn made_by(model: &ModelProto) -> Option<String> {
    let (name, version) = (model.producer_name(), model.producer_version());
    match (name.is_empty(), version.is_empty()) {
        (true, _) => None,
        (false, true) => Some(name.to_owned()),
        (false, false) => Some(format!("{name} {version}")),
    }
}
