//! Converted files: layout, bytes, hash, and the refusal to write what is not finite.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{fp32, write_file};
use plansmith_checkpoint::{Checkpoint, Error, Overflow, Planned, Written, layout, write_safetensors};
use plansmith_files::sha256_file;
use plansmith_tensor::DType;
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

fn planned(entries: &[(&str, DType)]) -> Vec<Planned> {
    entries.iter().map(|(name, dtype)| Planned { name: (*name).to_owned(), source: (*name).to_owned(), dtype: *dtype }).collect()
}

fn write(dir: &Path, plan: &[(&str, DType)]) -> Result<Written, Error> {
    write_safetensors(&dir.join("out.safetensors"), &planned(plan), &Checkpoint::open(dir).unwrap(), &|_| ())
}

/// One tensor of several pieces, an odd small one, integers, and an empty one; 1.5 and -0.25 are exact in every float type.
fn checkpoint() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let big: Vec<f32> = (0..700_001).map(|index| (index % 2039) as f32 * if index % 3 == 0 { 1.5 } else { -0.25 }).collect();
    let small = [0x3f, 0x80, 0x3f, 0xc0, 0xbf, 0x00]; // Three finite bf16, whatever they are.
    write_file(
        dir.path(),
        "model.safetensors",
        &[
            ("big", Dtype::F32, &[700_001], &fp32(&big)),
            ("brain", Dtype::BF16, &[3], &small),
            ("bytes", Dtype::U8, &[3], &[7, 8, 9]),
            ("empty", Dtype::F32, &[0, 5], &[]),
        ],
    );
    dir
}

#[test]
fn the_file_is_what_the_layout_said_and_what_the_reference_reader_reads() {
    let dir = checkpoint();
    let plan = [("bytes", DType::U8), ("big", DType::F16), ("empty", DType::F16), ("brain", DType::F32)];
    let before = layout(&planned(&plan), &Checkpoint::open(dir.path()).unwrap()).unwrap();
    let written = write(dir.path(), &plan).unwrap();
    assert_eq!(written.layout, before);

    let path = dir.path().join("out.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, before.size);
    assert_eq!(written.sha256, sha256_file(&path).unwrap());
    // Wide elements first, so that every tensor is aligned to its element; the payload is aligned for vector loads.
    assert_eq!(before.tensors.keys().collect::<Vec<_>>(), ["brain", "big", "empty", "bytes"]);
    assert_eq!(before.tensors["brain"].offset % 64, 0);

    let theirs = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(theirs.len(), 4);
    let big = theirs.tensor("big").unwrap();
    assert_eq!((big.dtype(), big.shape()), (Dtype::F16, [700_001].as_slice()));
    for (index, stored) in big.data().chunks_exact(2).enumerate() {
        let expected = (index % 2039) as f32 * if index % 3 == 0 { 1.5 } else { -0.25 };
        let found = half::f16::from_le_bytes([stored[0], stored[1]]);
        assert_eq!(found, half::f16::from_f32(expected), "element {index}");
    }
    assert_eq!(theirs.tensor("bytes").unwrap().data(), [7, 8, 9]);
    assert_eq!(theirs.tensor("empty").unwrap().shape(), [0, 5]);
    // bf16 is the upper half of fp32.
    assert_eq!(theirs.tensor("brain").unwrap().data(), [0, 0, 0x3f, 0x80, 0, 0, 0x3f, 0xc0, 0, 0, 0xbf, 0x00]);
}

#[test]
fn progress_grows_to_the_stored_bytes() {
    let dir = checkpoint();
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let (last, calls) = (AtomicU64::new(0), AtomicU64::new(0));
    let progress = |done| {
        assert!(done > last.swap(done, Ordering::Relaxed));
        calls.fetch_add(1, Ordering::Relaxed);
    };
    let plan = planned(&[("big", DType::BF16), ("bytes", DType::U8)]);
    write_safetensors(&dir.path().join("out.safetensors"), &plan, &checkpoint, &progress).unwrap();
    assert_eq!(last.into_inner(), 700_001 * 4 + 3);
    assert_eq!(calls.into_inner(), 4);
}

#[test]
fn what_is_not_finite_is_listed_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut large = vec![1.0f32; 300_000];
    (large[270_000], large[270_001]) = (7e4, -1e5);
    let broken = fp32(&[1.0, f32::INFINITY, f32::NAN]);
    write_file(
        dir.path(),
        "model.safetensors",
        &[
            ("layers.3.large", Dtype::F32, &[300, 1000], &fp32(&large)),
            ("layers.4.broken", Dtype::F32, &[3], &broken),
            ("fine", Dtype::F32, &[1], &fp32(&[1.0])),
        ],
    );

    let overflow = write(dir.path(), &[("layers.3.large", DType::F16), ("fine", DType::F16)]).unwrap_err();
    assert_eq!(
        overflow.to_string(),
        format!(
            "weights would not be finite in `{}`:\n  `layers.3.large` in `model.safetensors`: element 270000 is 7e4, beyond F16 (2 \
             elements are)",
            dir.path().join("out.safetensors").display()
        )
    );
    assert!(overflow.hint().unwrap().contains("--dtype bf16"));
    let Error::NotFinite { problems, .. } = overflow else { panic!() };
    assert_eq!(problems[0].overflow, Some(Overflow { index: 270_000, value: 7e4, count: 2 }));

    let both = write(dir.path(), &[("layers.3.large", DType::F16), ("layers.4.broken", DType::F32)]).unwrap_err();
    let Error::NotFinite { problems, .. } = &both else { panic!() };
    assert_eq!(problems.len(), 2);
    assert_eq!((problems[0].nan, problems[0].infinite), (Some(2), Some(1)));
    assert!(both.to_string().contains("`layers.4.broken` in `model.safetensors`: element 2 is NaN"));

    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["model.safetensors"]);
    assert!(write(dir.path(), &[("layers.3.large", DType::BF16)]).is_ok());
}

#[test]
fn plans_that_cannot_be_are_refused_by_name() {
    let dir = checkpoint();
    let message = |plan: &[(&str, DType)]| write(dir.path(), plan).unwrap_err().to_string();
    assert_eq!(message(&[("absent", DType::F16)]), format!("`{}` holds no tensor `absent`", dir.path().display()));
    assert_eq!(message(&[("big", DType::F16), ("big", DType::F32)]), "tensor `big` is planned twice");
    assert_eq!(
        message(&[("bytes", DType::F16)]),
        "cannot convert tensor `bytes` from U8 to F16: only F64, F32, F16 and BF16 are converted, to F32, F16 and BF16"
    );
    assert!(!dir.path().join("out.safetensors").exists());
}
