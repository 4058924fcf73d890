//! Folders: single files, shards, indices that lie, and everything that is no checkpoint.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod common;

use std::error::Error as _;
use std::path::Path;

use common::{fp32, write_file};
use plansmith_checkpoint::{Checkpoint, Error, FolderError};
use safetensors::tensor::Dtype;

fn index(dir: &Path, entries: &[(&str, &str)]) {
    let map: serde_json::Map<_, _> = entries.iter().map(|(tensor, file)| ((*tensor).to_owned(), (*file).into())).collect();
    let text = serde_json::json!({"metadata": {"total_size": 16}, "weight_map": map}).to_string();
    std::fs::write(dir.join("model.safetensors.index.json"), text).unwrap();
}

/// Two shards: `a` and `b` in the first, `c` in the second; the index as `entries` say.
fn sharded(entries: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let bytes = fp32(&[1.0, 2.0]);
    write_file(dir.path(), "one.safetensors", &[("a", Dtype::F32, &[2], &bytes), ("b", Dtype::F32, &[2], &bytes)]);
    write_file(dir.path(), "two.safetensors", &[("c", Dtype::F32, &[1, 2], &bytes)]);
    index(dir.path(), entries);
    dir
}

const RIGHT: [(&str, &str); 3] = [("c", "two.safetensors"), ("a", "one.safetensors"), ("b", "one.safetensors")];

/// The chain of messages below the first, which names the file.
fn reason(dir: &Path) -> String {
    let error = Checkpoint::open(dir).unwrap_err();
    assert!(error.to_string().contains(&*dir.to_string_lossy()), "{error}");
    error.source().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn shards_are_read_as_the_index_says() {
    let dir = sharded(&RIGHT);
    write_file(dir.path(), "consolidated.safetensors", &[("stray", Dtype::U8, &[1], &[1])]);
    std::fs::write(dir.path().join("broken.safetensors"), "not named by the index, so not read").unwrap();

    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let files: Vec<&str> = checkpoint.files().iter().map(|file| file.name.as_str()).collect();
    assert_eq!(files, ["one.safetensors", "two.safetensors"]);
    assert_eq!(checkpoint.tensors().keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    let c = checkpoint.get("c").unwrap();
    assert_eq!((c.file, c.shape.as_slice(), c.elements()), (1, [1, 2].as_slice(), 2));
    assert_eq!(checkpoint.file_of(c).name, "two.safetensors");
    assert_eq!(checkpoint.read_tensor(c).unwrap(), fp32(&[1.0, 2.0]));

    let mapped = checkpoint.map().unwrap();
    assert_eq!(mapped.bytes(c), fp32(&[1.0, 2.0]));
    mapped.release(c);
    assert_eq!(mapped.bytes(c), fp32(&[1.0, 2.0]));
}

#[test]
fn a_missing_shard_is_named_with_a_tensor() {
    let dir = sharded(&RIGHT);
    std::fs::remove_file(dir.path().join("two.safetensors")).unwrap();
    assert_eq!(reason(dir.path()), "tensor `c` is in `two.safetensors`, which is absent");
}

#[test]
fn a_truncated_shard_is_named() {
    let dir = sharded(&RIGHT);
    let path = dir.path().join("two.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    let error = Checkpoint::open(dir.path()).unwrap_err();
    assert_eq!(error.to_string(), format!("`{}` is no valid safetensors file", path.display()));
    assert_eq!(error.source().unwrap().to_string(), "tensor `c` ends at byte 8 of the payload, which has 5: the file is truncated");
    assert_eq!(error.hint().unwrap(), "the file is incomplete: download or save it again, and compare its size with the source");
}

#[test]
fn an_index_that_disagrees_with_its_shards_is_refused() {
    let absent = sharded(&[RIGHT[0], RIGHT[1], RIGHT[2], ("d", "two.safetensors")]);
    assert_eq!(reason(absent.path()), "tensor `d` should be in `two.safetensors`, which holds no such tensor; no shard does");

    let moved = sharded(&[("a", "two.safetensors"), ("b", "one.safetensors"), ("c", "two.safetensors")]);
    assert_eq!(reason(moved.path()), "tensor `a` should be in `two.safetensors`, which holds no such tensor; `one.safetensors` does");

    let unlisted = sharded(&[("a", "one.safetensors"), ("c", "two.safetensors")]);
    assert_eq!(reason(unlisted.path()), "`one.safetensors` holds tensor `b`, which the index does not name");

    let twice = sharded(&RIGHT);
    let bytes = fp32(&[1.0, 2.0]);
    write_file(twice.path(), "two.safetensors", &[("c", Dtype::F32, &[2], &bytes), ("a", Dtype::F32, &[2], &bytes)]);
    assert_eq!(reason(twice.path()), "`two.safetensors` holds tensor `a`, which the index places in `one.safetensors`");
}

#[test]
fn an_index_does_not_lead_out_of_its_folder() {
    let outside = sharded(&RIGHT);
    let inside = outside.path().join("model");
    std::fs::create_dir(&inside).unwrap();
    for file in ["../one.safetensors".to_owned(), outside.path().join("one.safetensors").display().to_string()] {
        index(&inside, &[("a", &file)]);
        let expected = format!("tensor `a` is in `{file}`, which is not the bare name of a .safetensors file in this folder");
        assert_eq!(reason(&inside), expected);
    }
}

#[test]
fn a_tensor_listed_twice_in_the_index_is_refused() {
    let dir = sharded(&RIGHT);
    let text = r#"{"weight_map": {"a": "one.safetensors", "a": "two.safetensors"}}"#;
    std::fs::write(dir.path().join("model.safetensors.index.json"), text).unwrap();
    assert_eq!(reason(dir.path()), "key `a` is there twice at line 1 column 43");
}

#[test]
fn a_single_file_beside_an_index_of_others_is_ambiguous() {
    let dir = sharded(&RIGHT);
    write_file(dir.path(), "model.safetensors", &[("a", Dtype::U8, &[1], &[1])]);
    assert_eq!(
        reason(dir.path()),
        "it holds both `model.safetensors` and an index, which names other files (`one.safetensors`, `two.safetensors`): which of \
         them counts is ambiguous"
    );
    index(dir.path(), &[("a", "model.safetensors")]);
    assert_eq!(Checkpoint::open(dir.path()).unwrap().files().len(), 1);
}

#[test]
fn other_formats_are_named_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(reason(dir.path()), "it holds no weights: neither `model.safetensors` nor `model.safetensors.index.json`");
    let hint = Checkpoint::open(dir.path()).unwrap_err().hint().unwrap();
    assert!(hint.starts_with("pass the folder that holds config.json and the weights"), "{hint}");

    std::fs::write(dir.path().join("pytorch_model.bin"), "").unwrap();
    assert_eq!(reason(dir.path()), "its weights are in `pytorch_model.bin`, PyTorch's pickle format; safetensors and GGUF are read");
    let hint = Checkpoint::open(dir.path()).unwrap_err().hint().unwrap();
    assert!(
        hint.contains("torch.load(\"pytorch_model.bin\", weights_only=True)") && hint.contains("safetensors.torch.save_file"),
        "{hint}"
    );

    std::fs::write(dir.path().join("model-00001-of-00002.safetensors"), "").unwrap();
    assert!(reason(dir.path()).starts_with("it holds `model-00001-of-00002.safetensors`, but neither"));
    assert!(Checkpoint::open(dir.path()).unwrap_err().hint().unwrap().contains("model.safetensors.index.json"));

    let file = dir.path().join("pytorch_model.bin");
    assert!(matches!(Checkpoint::open(&file), Err(Error::Folder { source: FolderError::NotAFolder, .. })));
    assert!(matches!(Checkpoint::open(&dir.path().join("absent")), Err(Error::File(error)) if error.is_not_found()));
}

#[test]
fn links_of_a_hub_cache_are_followed_and_said_so() {
    let hub = tempfile::tempdir().unwrap();
    let snapshot = hub.path().join("snapshots");
    std::fs::create_dir(&snapshot).unwrap();
    write_file(hub.path(), "blob", &[("a", Dtype::U8, &[1], &[7])]);
    std::os::unix::fs::symlink("../blob", snapshot.join("model.safetensors")).unwrap();
    let checkpoint = Checkpoint::open(&snapshot).unwrap();
    assert!(checkpoint.files()[0].is_link);
    assert_eq!(checkpoint.files()[0].name, "model.safetensors");

    std::fs::remove_file(hub.path().join("blob")).unwrap();
    let error = Checkpoint::open(&snapshot).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot examine `{}`", snapshot.join("model.safetensors").display()));
}

#[test]
fn the_headers_digest_follows_headers_and_names_only() {
    let digest = |dir: &Path| Checkpoint::open(dir).unwrap().headers_digest();
    let (one, two) = (sharded(&RIGHT), sharded(&RIGHT));
    assert_eq!(digest(one.path()), digest(two.path()));

    let write = |a: f32, shape: &[usize]| {
        let (a, b) = (fp32(&[a, 2.0]), fp32(&[1.0, 2.0]));
        write_file(two.path(), "one.safetensors", &[("a", Dtype::F32, shape, &a), ("b", Dtype::F32, &[2], &b)]);
        digest(two.path())
    };
    assert_eq!(digest(one.path()), write(9.0, &[2]), "the payload does not count");
    assert_ne!(digest(one.path()), write(1.0, &[2, 1]), "the header does");
}

#[test]
fn json_beside_the_weights_is_read_with_the_file_in_every_error() {
    let dir = sharded(&RIGHT);
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let config = dir.path().join("config.json");
    assert_eq!(checkpoint.config_path(), config);
    assert!(!checkpoint.has("config.json"));
    assert!(matches!(checkpoint.read_json::<serde_json::Value>("config.json"), Err(Error::File(error)) if error.path == config));

    std::fs::write(&config, r#"{"hidden_size": 64, "hidden_size": 32}"#).unwrap();
    let error = checkpoint.read_json::<serde_json::Value>("config.json").unwrap_err();
    assert_eq!(error.to_string(), format!("`{}` cannot be used", config.display()));
    assert_eq!(error.source().unwrap().to_string(), "key `hidden_size` is there twice at line 1 column 33");

    std::fs::File::create(&config).unwrap().set_len(20_000_000).unwrap();
    let error = checkpoint.read_json::<serde_json::Value>("config.json").unwrap_err();
    assert_eq!(error.source().unwrap().to_string(), "it has 20000000 bytes; at most 16000000 are read");
}
