//! What was measured, as a table and as JSON.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::beside;
use super::export::results_names::{FP16, IN_PLACE};
use super::measure::{Cost, median};
use crate::error::Error;

/// One run of one exporter.
#[derive(Debug, Serialize)]
pub(crate) struct Export {
    pub(crate) name: &'static str,
    pub(crate) round: usize,
    #[serde(flatten)]
    pub(crate) cost: Cost,
    /// Bytes that it wrote.
    pub(crate) written: u64,
}

/// One run of one graph on one runtime.
#[derive(Debug, Serialize)]
pub(crate) struct Execution {
    pub(crate) name: String,
    pub(crate) round: usize,
    #[serde(flatten)]
    pub(crate) speed: Speed,
}

/// What `plansmith bench --json` prints, as far as it is read.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Speed {
    runtime: String,
    load_s: f64,
    pub(crate) prefill_tokens: usize,
    prefill_s: f64,
    pub(crate) prefill_fastest_s: f64,
    pub(crate) prefill_cpu_s: f64,
    decode_tokens: usize,
    pub(crate) decode_tokens_per_s: f64,
    peak_bytes: u64,
}

/// Where it was measured, and what else the machine was doing.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cores: usize,
    processor: String,
    /// Over one, five and fifteen minutes, at the start.
    load: String,
}

impl Machine {
    /// Reads /proc.
    pub(crate) fn read() -> Result<Self, Error> {
        let info = plansmith_files::read_to_string(Path::new("/proc/cpuinfo"))?;
        let processor = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
        let load = plansmith_files::read_to_string(Path::new("/proc/loadavg"))?;
        Ok(Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: processor.trim_start_matches([' ', '\t', ':']).to_owned(),
            load: load.split_whitespace().take(3).collect::<Vec<_>>().join(" "),
        })
    }
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    machine: Machine,
    pub(crate) exports: Vec<Export>,
    pub(crate) executions: Vec<Execution>,
    /// What could not be measured, and why.
    refused: Vec<String>,
}

impl Results {
    /// Nothing measured yet.
    pub(crate) fn new(machine: Machine) -> Self {
        Self { machine, exports: Vec::new(), executions: Vec::new(), refused: Vec::new() }
    }

    /// Remembers once that `name` cannot be measured.
    pub(crate) fn refuse(&mut self, name: &str, why: &str) {
        let line = format!("{name}: {why}");
        if !self.refused.contains(&line) {
            println!("  {line}");
            self.refused.push(line);
        }
    }

    /// Writes everything as JSON.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let json = serde_json::to_string_pretty(self).map_err(|source| Error::Json { path: path.to_owned(), source })?;
        plansmith_files::write_atomic(path, json.as_bytes())?;
        println!("\nevery run: {}", path.display());
        Ok(())
    }

    /// Prints medians, the largest peaks, and how far the fastest peer is behind.
    pub(crate) fn print(&self) {
        println!("\n{} cores, {}, load at the start {}", self.machine.cores, self.machine.processor, self.machine.load);
        println!("\n| export | seconds (median) | slowest | peak MB | written MB |\n|---|---|---|---|---|");
        for name in names(self.exports.iter().map(|export| export.name)) {
            let runs: Vec<&Export> = self.exports.iter().filter(|export| export.name == name).collect();
            let slowest = runs.iter().map(|run| run.cost.seconds).fold(0.0, f64::max);
            let written = runs.iter().map(|run| run.written).max().unwrap_or_default();
            let (seconds, peak) = (self.seconds(name), megabytes(self.peak(name)));
            println!("| {name} | {seconds:.3} | {slowest:.3} | {peak:.1} | {:.1} |", megabytes(written));
        }
        for (ours, precision) in [(IN_PLACE, "fp32"), (FP16, "fp16")] {
            self.print_ratio(ours, precision);
        }
        println!("\n| execution | load s | prefill ms | decode tokens/s | peak MB |\n|---|---|---|---|---|");
        for name in names(self.executions.iter().map(|execution| execution.name.as_str())) {
            let of = |value: fn(&Speed) -> f64| {
                let mut values: Vec<f64> =
                    self.executions.iter().filter(|execution| execution.name == name).map(|execution| value(&execution.speed)).collect();
                median(&mut values)
            };
            let (load, prefill, decode) = (of(|speed| speed.load_s), of(|speed| speed.prefill_s), of(|speed| speed.decode_tokens_per_s));
            let peak = of(|speed| speed.peak_bytes as f64) / 1e6;
            println!("| {name} | {load:.3} | {:.0} | {decode:.1} | {peak:.0} |", prefill * 1e3);
        }
        if let Some(line) = beside::line(&self.executions) {
            println!("{line}");
        }
        for line in &self.refused {
            println!("not measured: {line}");
        }
    }

    /// Says how many times faster `ours` is than the fastest peer that writes the same precision.
    fn print_ratio(&self, ours: &str, precision: &str) {
        let peers = names(self.exports.iter().map(|export| export.name))
            .into_iter()
            .filter(|name| !name.starts_with("plansmith") && name.ends_with(precision));
        let fastest = peers.map(|name| (self.seconds(name), name)).min_by(|left, right| left.0.total_cmp(&right.0));
        if let Some((seconds, name)) = fastest {
            println!("{ours}: {:.0} times faster than {name}, the fastest peer", seconds / self.seconds(ours));
        }
    }

    fn seconds(&self, name: &str) -> f64 {
        let mut values: Vec<f64> = self.exports.iter().filter(|export| export.name == name).map(|export| export.cost.seconds).collect();
        median(&mut values)
    }

    fn peak(&self, name: &str) -> u64 {
        self.exports.iter().filter(|export| export.name == name).map(|export| export.cost.peak_bytes).max().unwrap_or_default()
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Each name once, in the order of its first occurrence.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        assert_eq!(median(&mut [4.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn what_the_command_prints_is_read() {
        let text = r#"{"runtime":"rten 0.27","load_s":0.1,"load_map_s":0.0,"prefill_tokens":128,"prefill_s":0.3,"prefill_fastest_s":0.2,"prefill_cpu_s":0.4,"decode_tokens":32,"decode_tokens_per_s":30.0,"peak_bytes":1}"#;
        assert_eq!(serde_json::from_str::<Speed>(text).unwrap().prefill_tokens, 128);
    }
}
