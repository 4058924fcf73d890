//! A part of the mutation table, for every run of the tests: every fault in a spec or a graph of three families, no clean cases but those
//! of the same checkpoints.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that panics has failed")]

use plansmith_mutants::{Bench, Table, clean_graphs, mutants};
use plansmith_runtime::RuntimeKind;

/// Between them they have every kind of fault.
const FAMILIES: [&str; 3] = ["llama", "gemma2", "gpt2"];

#[test]
fn seeded_faults_are_caught_and_located() {
    let mut table = Table::default();
    for family in FAMILIES {
        let bench = Bench::open(family, RuntimeKind::Rten).unwrap();
        for (fault, way) in mutants().into_iter().filter(|(fault, _)| fault.checkpoint == family) {
            println!("{}", table.add(fault, way, bench.score(&fault, way)));
        }
    }
    assert!(table.passed(), "{}", table.totals());
}

#[test]
fn graphs_without_a_fault_are_not_accused() {
    let cleans = clean_graphs(false, RuntimeKind::Rten, &mut |_| ()).unwrap();
    assert!(cleans.len() >= 7 * 5, "{}", cleans.len());
    let alarms: Vec<_> =
        cleans.iter().filter_map(|clean| clean.alarm.as_ref().map(|alarm| (&clean.checkpoint, &clean.dtypes, alarm))).collect();
    assert!(alarms.is_empty(), "{alarms:#?}");
}
