//! The build stamp.
fn main() {}
