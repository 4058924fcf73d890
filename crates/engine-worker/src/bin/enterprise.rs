//! Builds and runs plans of TensorRT.

use std::process::ExitCode;

fn main() -> ExitCode {
    plansmith_engine_worker::run()
}
