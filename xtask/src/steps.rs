//! The steps of a task: how long each took, how it ended, and what its tests said.

use std::time::{Duration, Instant};

use crate::error::Error;

/// What one step did.
#[derive(Debug)]
struct Row {
    name: String,
    wall: Duration,
    outcome: Outcome,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
}

/// Tests as libtest counts them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

impl Tally {
    /// Adds a line `test result: ok. 12 passed; 0 failed; …`; other lines add nothing.
    pub(crate) fn add(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("test result: ") else { return };
        let count = |word: &str| {
            let part = rest.split([';', '.']).map(str::trim).find(|part| part.ends_with(word))?;
            part.split_whitespace().next()?.parse::<usize>().ok()
        };
        self.passed += count("passed").unwrap_or_default();
        self.failed += count("failed").unwrap_or_default();
    }
}

/// The steps so far.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    rows: Vec<Row>,
    total: Tally,
}

impl Steps {
    /// Runs a step; one that fails is told and counted, and the next one runs all the same.
    pub(crate) fn run(&mut self, name: &str, step: impl FnOnce(&mut Tally) -> Result<bool, Error>) {
        println!("\n=== {name}");
        let start = Instant::now();
        let mut tally = Tally::default();
        let passed = step(&mut tally).unwrap_or_else(|error| {
            println!("error: {error}");
            false
        });
        // A check, or a test program that did not build or was killed, counts as one failure.
        if !passed && tally.failed == 0 {
            tally.failed = 1;
        }
        self.total.passed += tally.passed;
        self.total.failed += tally.failed;
        let outcome = if passed { Outcome::Passed } else { Outcome::Failed };
        self.rows.push(Row { name: name.to_owned(), wall: start.elapsed(), outcome });
    }

    /// Prints every step, `notes`, and the sum of all tests.
    pub(crate) fn finish(self, notes: &[String]) -> Result<(), Error> {
        println!("\n=== summary");
        for row in &self.rows {
            let outcome = if row.outcome == Outcome::Passed { "passed" } else { "FAILED" };
            println!("{outcome}  {:7.1} s  {}", row.wall.as_secs_f64(), row.name);
        }
        for note in notes {
            println!("{note}");
        }
        println!("{} passed, {} failed", self.total.passed, self.total.failed);
        let failed: Vec<&str> = self.rows.iter().filter(|row| row.outcome == Outcome::Failed).map(|row| row.name.as_str()).collect();
        if failed.is_empty() { Ok(()) } else { Err(Error::Steps(format!("failed: {}", failed.join(", ")))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_programs_add_up() {
        let mut tally = Tally::default();
        tally.add("running 3 tests");
        tally.add("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.02s");
        tally.add("test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s");
        assert_eq!(tally, Tally { passed: 14, failed: 1 });
    }

    #[test]
    fn a_failed_check_fails_the_task_and_counts() {
        let mut steps = Steps::default();
        steps.run("fine", |_| Ok(true));
        steps.run("broken", |_| Ok(false));
        assert_eq!(steps.total, Tally { passed: 0, failed: 1 });
        assert_eq!(steps.finish(&[]).unwrap_err().to_string(), "failed: broken");
    }
}
