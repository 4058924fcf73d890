//! `cargo xtask`: set-up, demo, tests and benchmarks.
fn main() {}
