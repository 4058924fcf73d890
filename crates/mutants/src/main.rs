//! `plansmith-mutants`: seeds every fault, verifies, and prints the table. Run by `cargo xtask mutants`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command prints")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use plansmith_mutants::{Bench, Table, clean_graphs, mutants};
use plansmith_runtime::RuntimeKind;

/// Begins the table's part of a page.
const HEADING: &str = "## Mutation score\n";

#[derive(Debug, Parser)]
#[command(name = "plansmith-mutants", about = "Seeds faults and counts those that verify finds")]
struct Arguments {
    /// What executes graphs: rten or ort
    #[arg(long, default_value = "rten")]
    runtime: String,
    /// Only faults whose checkpoint or name contains this, and no clean graphs
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Write the table into this page, in place of all that follows its heading
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    let runtime: RuntimeKind = arguments.runtime.parse().map_err(|error: plansmith_runtime::UnknownRuntime| error.to_string())?;
    let mut table = Table::default();
    let mut benches = BTreeMap::new();
    let wanted = |text: &str| arguments.only.as_ref().is_none_or(|only| text.contains(only));
    for (fault, way) in mutants() {
        if !wanted(fault.checkpoint) && !wanted(fault.name) {
            continue;
        }
        if !benches.contains_key(fault.checkpoint) {
            benches.insert(fault.checkpoint, Bench::open(fault.checkpoint, runtime)?);
        }
        println!("{}", table.add(fault, way, benches[fault.checkpoint].score(&fault, way)));
    }
    if arguments.only.is_none() {
        table.cleans = clean_graphs(true, runtime, &mut |clean| {
            if let Some(alarm) = &clean.alarm {
                println!("FALSE ALARM {}, {}:\n{alarm}", clean.checkpoint, clean.dtypes);
            }
        })?;
    }
    println!("\n{}", table.totals());
    if let Some(path) = &arguments.write {
        let page = plansmith_files::read_to_string(path).map_err(|error| error.to_string())?;
        let (before, _) = page.split_once(HEADING).ok_or_else(|| format!("{} has no heading `{HEADING}`", path.display()))?;
        let page = format!("{before}{HEADING}{}", table.markdown(&arguments.runtime));
        plansmith_files::write_atomic(path, page.as_bytes()).map_err(|error| error.to_string())?;
    }
    Ok(table.passed())
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
