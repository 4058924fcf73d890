//! `plansmith`: the command.
//!
//! `args` holds the flags, `commands` what each verb does, `output` all printing, `progress` how far work is, `exit` the exit codes,
//! `replace` what may be written over, `interrupt` Ctrl-C, `chat` the process that this one starts for a chat template.

mod args;
mod chat;
mod commands;
mod exit;
mod interrupt;
mod model;
mod output;
mod progress;
mod replace;
mod stamp;
mod text;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Verb};
use crate::exit::{Failure, Outcome};
use crate::output::Output;

fn main() -> ExitCode {
    if chat::is_renderer(std::env::args_os().next()) {
        return chat::renderer();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout with code 0, misuse to stderr with code 2; a closed pipe is nobody's fault.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let mut output = Output::new(&cli.global);
    if let Some(path) = cli.verb.events() {
        match output.clone().with_events(path) {
            Ok(with) => output = with,
            Err(failure) => {
                output.failure(&failure);
                return ExitCode::from(2);
            }
        }
    }
    match dispatch(cli.verb, cli.global.offline, &output) {
        Ok(outcome) => outcome.into(),
        Err(failure) => {
            output.failure(&failure);
            ExitCode::from(2)
        }
    }
}

fn dispatch(verb: Verb, offline: bool, output: &Output) -> Result<Outcome, Failure> {
    match verb {
        Verb::Inspect(args) => commands::inspect::run(&args, output),
        Verb::Fetch(args) => commands::fetch::run(&args, offline, output),
        Verb::Import(args) => commands::import::run(&args, output),
        Verb::Export(args) => commands::export::run(&args, output),
        Verb::Engine(args) => commands::engine::run(&args, output),
        Verb::Verify(args) => commands::verify::run(&args, output),
        Verb::Golden(args) => commands::golden::run(&args, output),
        Verb::Compare(args) => commands::compare::run(&args, output),
        Verb::Run(args) => commands::run::run(&args, output),
        Verb::Bench(args) => commands::bench::run(&args, output),
        Verb::Build(args) => commands::build::run(&args, output),
        Verb::Check(args) => commands::check::run(&args, output),
        Verb::Merge(args) => commands::build::merge(&args, output),
        Verb::Sign(args) => commands::sign::run(&args, output),
        Verb::Doctor(args) => commands::doctor::run(&args, output),
        Verb::Families(args) => commands::families::run(&args, output),
        Verb::Completions { shell } => commands::generate::completions(shell, output),
        Verb::Man { output: folder } => commands::generate::man(&folder, output),
    }
}
