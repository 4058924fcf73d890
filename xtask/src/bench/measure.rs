//! Wall time and peak memory of a program.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::places;
use crate::process::{Program, ending, tail};
use crate::python::Python;

/// What one run took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Cost {
    pub(crate) seconds: f64,
    /// User and system time, of the processes that it waited for too.
    pub(crate) cpu_seconds: f64,
    /// Largest resident size, mapped pages included.
    pub(crate) peak_bytes: u64,
}

impl Cost {
    /// The less of the times, and the larger of the peaks.
    pub(crate) fn better(self, other: Self) -> Self {
        Self {
            seconds: self.seconds.min(other.seconds),
            cpu_seconds: self.cpu_seconds.min(other.cpu_seconds),
            peak_bytes: self.peak_bytes.max(other.peak_bytes),
        }
    }
}

/// Runs `program` and measures it; the error is what it said last.
pub(crate) fn cost(program: &Program, scratch: &Path) -> Result<Result<Cost, String>, Error> {
    let result = scratch.join("measure.json");
    plansmith_files::remove_file(&result)?;
    let script = places::root().join("tools/peers/measure.py");
    let output = program.under(Python::find()?.program().arg(script).arg(&result)).capture()?;
    if !output.status.success() {
        return Ok(Err(format!("{}: {}", ending(output.status), tail(&output.stderr, 2))));
    }
    let text = plansmith_files::read_to_string(&result)?;
    serde_json::from_str(&text).map(Ok).map_err(|source| Error::Json { path: result, source })
}

/// Writes out what the last program left dirty, so that the next one does not pay for it.
pub(crate) fn settle() -> Result<(), Error> {
    Program::new("sync").read().map(|_| ())
}

/// The middle of `values`.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}
