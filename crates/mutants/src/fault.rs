//! What a fault is.

use plansmith_families::DecoderSpec;

use crate::edits::EDITS;
use crate::operations::OPERATIONS;
use crate::surgery::Surgery;

/// How a fault is made.
#[derive(Clone, Copy)]
pub enum Seeding {
    /// A mistake in the spec.
    Spec(fn(&mut DecoderSpec)),
    /// An operation on the finished graph; the error says what it did not find there.
    Graph(fn(&mut Surgery<'_>) -> Result<(), String>),
}

/// Where the first difference lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a layer: its number, and its block.
    Layer(usize, &'static str),
    /// Before the first layer or after the last: the block.
    Outside(&'static str),
}

impl Place {
    /// The layer, if any.
    pub fn layer(self) -> Option<usize> {
        match self {
            Self::Layer(layer, _) => Some(layer),
            Self::Outside(_) => None,
        }
    }

    /// The block.
    pub fn block(self) -> &'static str {
        match self {
            Self::Layer(_, block) | Self::Outside(block) => block,
        }
    }
}

/// One fault in one checkpoint.
#[derive(Clone, Copy)]
pub struct Fault {
    /// Folder below `testdata/mutants`.
    pub checkpoint: &'static str,
    /// What is wrong.
    pub name: &'static str,
    /// Where it shows first when it is in the graph alone.
    pub place: Place,
    /// How it is made.
    pub seeding: Seeding,
}

/// Who has the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The graph alone: the reference is right.
    Graph,
    /// Graph and reference, since both read the spec: transformers is right.
    Both,
}

/// Every fault in every way that it can be seeded.
pub fn mutants() -> Vec<(Fault, Way)> {
    let graph = EDITS.iter().chain(OPERATIONS).map(|&fault| (fault, Way::Graph));
    graph.chain(EDITS.iter().map(|&fault| (fault, Way::Both))).collect()
}
