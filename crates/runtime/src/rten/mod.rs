//! rten: pure Rust, part of this program.

mod mapped;
mod rewrite;
mod session;

use std::time::Instant;

use plansmith_tensor::DType;

use crate::error::Refusal;
use crate::graph::Graph;
use crate::open::{LoadBreakdown, Loaded, OpenOptions, Optimization, RuntimeFacts};
use crate::{Error, RuntimeKind};
use mapped::{MappedFiles, MappedModel};
use session::RtenSession;

/// The version of rten that this program contains.
pub const RTEN_VERSION: &str = "0.27.0";

/// Opens `graph`.
///
/// rten reads only data files whose names end in `data…`, has no bf16 and wants tensors aligned to their elements. So the graph is
/// rewritten in memory: data files get such names and are handed over mapped; bf16 and misaligned tensors are handed over converted and
/// copied.
pub(crate) fn load(graph: Graph<'_>, options: &OpenOptions) -> Result<Loaded, Error> {
    let start = Instant::now();
    let files = MappedFiles::open(&graph.files)?;
    let Graph { name, model, interface, .. } = graph;
    let rewritten = rewrite::rewrite(model.into_owned(), &files, &name)?;
    let map = start.elapsed();

    let start = Instant::now();
    let optimize = options.optimization == Optimization::Full;
    let refused = |refusal: Refusal| refusal.into_error(RuntimeKind::Rten, &name);
    let model = MappedModel::load(rewritten, files, optimize).map_err(refused)?;
    let session = RtenSession::new(model, interface, options).map_err(|message| refused(message.into()))?;
    Ok(Loaded {
        session: Box::new(session),
        facts: RuntimeFacts { kind: RuntimeKind::Rten, version: RTEN_VERSION.to_owned(), library: None, compute: DType::F32 },
        breakdown: LoadBreakdown { map, session: start.elapsed(), ..LoadBreakdown::default() },
    })
}

/// Runs `work` on a graph that we did not make: a panic within rten becomes an error.
fn guarded<T, E: From<String>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("it panicked: {}", said.unwrap_or("without a message")).into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_is_locked() {
        let lock = plansmith_files::read_to_string(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock")).unwrap();
        assert!(lock.contains(&format!("name = \"rten\"\nversion = \"{RTEN_VERSION}\"\n")));
    }

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(guarded::<(), String>(|| panic!("index {}", 3)), Err("it panicked: index 3".to_owned()));
    }
}
