//! Stored weights for tests.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::collections::BTreeMap;

use half::{bf16, f16};
use plansmith_checkpoint::Checkpoint;
use plansmith_families::{Linear, LinearLayout, Weight};
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};

use crate::weights::Weights;

/// Tensors by name, shape and elements, stored in fp32 and opened.
pub(crate) fn stored(tensors: &[(&str, &[u64], &[f32])]) -> Weights {
    stored_as(Dtype::F32, tensors)
}

/// As [`stored`], in F32, F16 or BF16.
pub(crate) fn stored_as(dtype: Dtype, tensors: &[(&str, &[u64], &[f32])]) -> Weights {
    let bytes = |&each: &f32| match dtype {
        Dtype::F16 => f16::from_f32(each).to_le_bytes().to_vec(),
        Dtype::BF16 => bf16::from_f32(each).to_le_bytes().to_vec(),
        _ => each.to_le_bytes().to_vec(),
    };
    let bytes: Vec<Vec<u8>> = tensors.iter().map(|(_, _, data)| data.iter().flat_map(bytes).collect()).collect();
    let views: BTreeMap<&str, TensorView<'_>> = tensors
        .iter()
        .zip(&bytes)
        .map(|((name, shape, _), bytes)| {
            let shape = shape.iter().map(|&length| length as usize).collect();
            (*name, TensorView::new(dtype, shape, bytes).unwrap())
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.safetensors");
    serialize_to_file(views, None, &path).unwrap();
    let weights: Vec<Weight> = tensors.iter().map(|(name, shape, _)| weight(name, shape)).collect();
    Weights::open(&weights, &Checkpoint::open_file(&path).unwrap()).unwrap()
}

pub(crate) fn weight(name: &str, shape: &[u64]) -> Weight {
    Weight { name: name.to_owned(), shape: shape.to_vec(), because: String::new() }
}

/// `weight` of `[out, in]`, without bias.
pub(crate) fn linear(name: &str, out: u64, input: u64) -> Linear {
    Linear { weight: weight(name, &[out, input]), layout: LinearLayout::OutIn, bias: None }
}

/// Panics where a pair differs by more than 2e-6 of its larger magnitude, or of 1.
pub(crate) fn assert_close(found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len());
    for (found_one, wanted_one) in found.iter().zip(wanted) {
        assert!((found_one - wanted_one).abs() <= 2e-6 * wanted_one.abs().max(1.0), "{found:?}\n{wanted:?}");
    }
}
