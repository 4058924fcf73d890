//! Builds and runs plans of TensorRT for RTX.

use std::process::ExitCode;

fn main() -> ExitCode {
    plansmith_engine_worker::run()
}
