//! `cargo xtask`: set-up, demo, tests and benchmarks.

mod assets;
mod bench;
mod clients;
mod demo;
mod error;
mod gpu;
mod header;
mod linters;
mod mutants;
mod places;
mod process;
mod python;
mod setup;
mod steps;
mod test;
mod tidy;
mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Error;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Set-up, demo, tests and benchmarks of plansmith", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Gets what the other tasks need from the package registries, once, and builds the TensorRT worker
    Setup {
        /// Goes on without what cannot be had, and says so in the last lines
        #[arg(long)]
        allow_missing: bool,
    },
    /// Runs everything that CI runs
    Test {
        /// Goes on without what cannot be had, and says so in the last lines
        #[arg(long)]
        allow_missing: bool,
    },
    /// Shows the main job on a real model: import, build, check, run
    Demo {
        /// Goes on without what cannot be had, and says so in the last lines
        #[arg(long)]
        allow_missing: bool,
    },
    /// Measures plansmith beside other exporters, on the demo model
    Bench {
        /// Instead: builds TensorRT-RTX plans of a fixture of each family, and compares what builds with testdata/plans.json
        #[arg(long)]
        families: bool,
        /// Instead: builds TensorRT-RTX plans of the demo model, beside NVIDIA's Python bindings and optimum-onnx's graphs
        #[arg(long, conflicts_with = "families")]
        engines: bool,
        /// Writes what builds to testdata/plans.json
        #[arg(long, requires = "families")]
        update: bool,
        /// How often everything is measured, in turn
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Goes on without what cannot be had, and says so in the last lines
        #[arg(long)]
        allow_missing: bool,
    },
    /// Seeds every fault and counts those that verify finds; writes docs/verify.md
    Mutants {
        /// What executes graphs: rten or ort
        #[arg(long, default_value = "rten")]
        runtime: String,
        /// Only faults whose checkpoint or name contains this; writes nothing
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
    },
    /// Runs the tests that need a GPU, and nothing else
    Gpu {
        /// Builds all that they need, and runs nothing
        #[arg(long)]
        no_run: bool,
    },
    /// Checks layers, words, sizes and licences only
    Tidy,
}

fn run(task: &Task) -> Result<(), Error> {
    match task {
        Task::Setup { allow_missing } => setup::main(*allow_missing),
        Task::Test { allow_missing } => test::main(*allow_missing),
        Task::Demo { allow_missing } => demo::main(*allow_missing),
        Task::Bench { families: true, update, .. } => bench::families::main(*update),
        Task::Bench { engines: true, rounds, .. } => bench::engines::main((*rounds).max(1)),
        Task::Bench { rounds, allow_missing, .. } => bench::main((*rounds).max(1), *allow_missing),
        Task::Mutants { runtime, only } => mutants::main(runtime, only.as_deref()),
        Task::Gpu { no_run } => gpu::main(*no_run),
        Task::Tidy => match tidy::check()? + tidy::licences()? {
            0 => Ok(()),
            count => Err(Error::Steps(format!("{count} findings"))),
        },
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                eprintln!("  caused by: {cause}");
                source = cause.source();
            }
            if let Some(hint) = error.hint() {
                eprintln!("\nhint: {hint}");
            }
            ExitCode::from(error.exit_code())
        }
    }
}
