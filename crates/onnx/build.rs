//! Compiles `proto/onnx.proto` in pure Rust: no `protoc` is needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../../proto/onnx.proto");
    let schema = protox::compile(["onnx.proto"], ["../../proto"])?;
    // The schema's own comments become rustdoc; fields without one are named by the standard.
    prost_build::Config::new().compile_fds(schema)?;
    Ok(())
}
