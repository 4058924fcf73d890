//! Faults seeded on purpose: what `verify` is worth is how many of them it finds, and how often it cries wolf over none.
//!
//! A [`Fault`] is put into the tiny checkpoints of `testdata/mutants`, each of which has what its family is told apart by. Graph faults are
//! in the graph alone: either it is lowered from a spec with a mistake ([`Seeding::Spec`]) while the reference reads the right one, or the
//! finished graph is operated on ([`Seeding::Graph`]); they have to be caught with the built-in reference alone, and bisection has to name
//! the layer. The mistakes of a spec are also made before both readings, so that graph and reference agree with each other: those have to be
//! caught with a golden made by transformers. Graphs without a fault have to agree at every dtype.

mod clean;
mod edits;
mod fault;
mod operations;
mod score;
mod surgery;
mod table;

pub use clean::{Clean, clean_graphs};
pub use fault::{Fault, Place, Seeding, Way, mutants};
pub use score::{Bench, Scored};
pub use table::Table;
