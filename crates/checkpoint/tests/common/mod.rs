//! Checkpoints built in a temporary folder, by the safetensors project's own writer.

use std::collections::HashMap;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};

/// Writes `tensors` (name, dtype, shape, stored bytes) as `dir/name`.
pub(crate) fn write_file(dir: &Path, name: &str, tensors: &[(&str, Dtype, &[usize], &[u8])]) {
    let views: HashMap<&str, TensorView<'_>> =
        tensors.iter().map(|(name, dtype, shape, bytes)| (*name, TensorView::new(*dtype, shape.to_vec(), bytes).unwrap())).collect();
    std::fs::write(dir.join(name), safetensors::serialize(views, None).unwrap()).unwrap();
}

/// The stored bytes of fp32 values.
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn fp32(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
