//! Where inside a graph a candidate leaves its source: comparisons of tapped values, and what follows from them.
//!
//! Nothing here executes anything: who does (the pipeline) asks [`bisect_runs`] what to feed, compares every [`Tap`] by [`Difference`],
//! lets [`first_divergence`] choose, and [`explain`]s what it found.

mod causes;
mod difference;
mod locate;
mod runs;

pub use causes::{CacheSeen, Cause, explain};
pub use difference::{Difference, Stats};
pub use locate::{Seen, block_name, first_divergence};
pub use runs::{BisectRun, BisectStep, RunKind, Token, bisect_runs};
