//! What may be replaced, and what is left when an import fails.

use std::fs;
use std::path::Path;

use plansmith_checkpoint::gguf::{Error, ImportOptions, Imported, import};
use plansmith_tensor::DType;

use crate::{chain, testdata};

fn into(folder: &Path, force: bool) -> Result<Imported, Error> {
    import(&testdata("tiny.gguf"), folder, &ImportOptions { dtype: DType::F32, force }, &|_, _| {})
}

#[test]
fn an_import_is_replaced_and_anything_else_is_not() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("model");
    fs::create_dir(&folder).unwrap();
    into(&folder, false).unwrap();
    into(&folder, false).unwrap();

    fs::write(folder.join("model.onnx"), "").unwrap();
    let error = into(&folder, false).unwrap_err();
    assert!(chain(&error).ends_with("it holds `model.onnx`, which no import writes"), "{}", chain(&error));
    assert!(error.hint().unwrap().contains("--force"));
    into(&folder, true).unwrap();
    assert!(!folder.join("model.onnx").exists());

    // A file that was edited, and one that was added under a name of ours.
    let config = fs::read_to_string(folder.join("config.json")).unwrap();
    fs::write(folder.join("config.json"), format!("{config} ")).unwrap();
    let error = into(&folder, false).unwrap_err();
    assert!(chain(&error).ends_with("its `config.json` is not as the import wrote it"), "{}", chain(&error));
    assert!(error.hint().unwrap().contains("--force"));
    assert_eq!(fs::read_to_string(folder.join("config.json")).unwrap(), format!("{config} "));
    fs::write(folder.join("config.json"), config).unwrap();
    into(&folder, false).unwrap();
    fs::write(folder.join("chat_template.jinja"), "mine").unwrap();
    let error = into(&folder, false).unwrap_err();
    assert!(chain(&error).ends_with("its `chat_template.jinja` is not as the import wrote it"), "{}", chain(&error));
    into(&folder, true).unwrap();

    // A checkpoint of another source with the same names.
    fs::copy(testdata("blocks.safetensors"), folder.join("model.safetensors")).unwrap();
    let error = into(&folder, false).unwrap_err();
    assert!(chain(&error).ends_with("was not written by an import"), "{}", chain(&error));
}

#[test]
fn the_folder_of_the_source_is_never_replaced() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("tiny.gguf");
    fs::copy(testdata("tiny.gguf"), &file).unwrap();
    let error = import(&file, parent.path(), &ImportOptions { dtype: DType::F32, force: true }, &|_, _| {}).unwrap_err();
    assert!(chain(&error).ends_with("it holds the GGUF file itself"), "{}", chain(&error));
    assert!(file.exists());
}

#[test]
fn a_failed_import_leaves_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("model");
    let error = import(&testdata("tiny.gguf"), &folder, &ImportOptions { dtype: DType::F16, force: false }, &|_, _| {}).unwrap_err();
    assert_eq!(error.to_string(), "import writes F32 or BF16, not F16");

    let mut bytes = fs::read(testdata("tiny.gguf")).unwrap();
    // The scale of the last block becomes a NaN: found only while weights are written.
    let end = bytes.len();
    bytes[end - 32..].fill(0xff);
    let file = parent.path().join("nan.gguf");
    fs::write(&file, bytes).unwrap();
    let error = import(&file, &folder, &ImportOptions { dtype: DType::F32, force: false }, &|_, _| {}).unwrap_err();
    assert!(chain(&error).contains("infinite or NaN"), "{}", chain(&error));
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "only nan.gguf is there");
}

#[test]
fn progress_ends_at_the_total() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let parent = tempfile::tempdir().unwrap();
    let (most, total) = (AtomicU64::new(0), AtomicU64::new(0));
    let progress = |done: u64, all: u64| {
        most.fetch_max(done, Ordering::Relaxed);
        total.store(all, Ordering::Relaxed);
    };
    let options = ImportOptions { dtype: DType::BF16, force: false };
    let imported = import(&testdata("tiny.gguf"), &parent.path().join("model"), &options, &progress).unwrap();
    assert_eq!(most.into_inner(), imported.parameters * 2);
    assert_eq!(total.into_inner(), imported.parameters * 2);
}
