//! The audit: hashes as `sha256sum` gives them, positions of what is not finite, and a cache that notices change.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::path::Path;

use common::{fp32, write_file};
use plansmith_checkpoint::{Checkpoint, Scan, audit, audit_file};
use safetensors::tensor::Dtype;

fn case(name: &str) -> Checkpoint {
    Checkpoint::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cases").join(name)).unwrap()
}

#[test]
fn hashes_are_those_of_sha256sum() {
    let audit = audit(&case("shard_ok"), None, &|_| ()).unwrap();
    let hashes: Vec<(&str, String)> = audit.files.iter().map(|file| (file.name.as_str(), file.sha256.to_string())).collect();
    assert_eq!(
        hashes,
        [
            ("model-00001-of-00002.safetensors", "80a97a2d25f6159f0f9c2ba1ea7bf78078c22c7459f9eb374025f4ff99579e52".to_owned()),
            ("model-00002-of-00002.safetensors", "c2d1f9dc56f861893fd3f8bf1d2b49899d729d27c929a646523bcd7cd4cd97b1".to_owned()),
        ]
    );
    assert_eq!(audit.files.iter().map(|file| file.tensors.len()).sum::<usize>(), case("shard_ok").tensors().len());
    assert_eq!(audit.not_finite().count(), 0);
}

#[test]
fn the_nan_of_the_case_is_found_where_it_is() {
    let audit = audit(&case("nan_weight"), None, &|_| ()).unwrap();
    let found: Vec<_> = audit.not_finite().map(|(file, tensor, scan)| (file.name.as_str(), tensor, scan.nan, scan.infinite)).collect();
    assert_eq!(found, [("model.safetensors", "model.layers.1.mlp.up_proj.weight", Some(197), None)]);
}

#[test]
fn large_tensors_are_scanned_across_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let mut values = vec![0.25f32; 900_000];
    (values[600_000], values[700_000], values[800_000]) = (f32::INFINITY, -8.0, f32::NAN);
    let tensors: [(&str, Dtype, &[usize], &[u8]); 3] =
        [("large", Dtype::F32, &[900_000], &fp32(&values)), ("index", Dtype::I64, &[1], &[0; 8]), ("empty", Dtype::F16, &[0], &[])];
    write_file(dir.path(), "model.safetensors", &tensors);
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let audit = audit(&checkpoint, None, &|_| ()).unwrap();
    assert_eq!(audit.scan("large"), Some(Scan { nan: Some(800_000), infinite: Some(600_000), max_abs: 8.0 }));
    assert_eq!((audit.scan("index"), audit.scan("empty")), (None, Some(Scan::default())));
    assert_eq!(audit.files[0].sha256, plansmith_files::sha256_file(&dir.path().join("model.safetensors")).unwrap());
}

#[test]
fn a_file_is_read_once_until_it_changes() {
    let (dir, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let write = |value| write_file(dir.path(), "model.safetensors", &[("a", Dtype::F32, &[1], &fp32(&[value]))]);
    let run = || audit_file(&Checkpoint::open(dir.path()).unwrap(), 0, Some(cache.path()), &|_| ()).unwrap();

    write(3.0);
    let first = run();
    assert!(!first.cached);
    let second = run();
    assert!(second.cached);
    assert_eq!(second.tensors, first.tensors);
    assert_eq!(second.sha256, first.sha256);

    // Overwritten in place at once, with the same size and header: only the times tell.
    write(4.0);
    let third = run();
    assert!(!third.cached);
    assert_eq!(third.tensors["a"].unwrap().max_abs, 4.0);

    for entry in std::fs::read_dir(cache.path().join("audit")).unwrap() {
        std::fs::write(entry.unwrap().path(), "damaged").unwrap();
    }
    assert!(!run().cached);
    assert!(run().cached);
}

#[test]
fn a_file_that_shrank_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    write_file(dir.path(), "model.safetensors", &[("a", Dtype::F32, &[2], &fp32(&[1.0, 2.0]))]);
    let path = dir.path().join("model.safetensors");
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(size - 4).unwrap();
    let expected = format!("`{}` changed while it was being read: it had {size} bytes and has {}", path.display(), size - 4);
    assert_eq!(audit(&checkpoint, None, &|_| ()).unwrap_err().to_string(), expected);
    assert_eq!(checkpoint.map().unwrap_err().to_string(), expected);
}
