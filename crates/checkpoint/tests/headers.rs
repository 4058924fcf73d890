//! Every file of `testdata/cases/st` gets its verdict, and every refusal its own reason.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::error::Error as _;
use std::path::{Path, PathBuf};

use plansmith_checkpoint::{Error, inspect_file};

const ACCEPTED: [(&str, &[&str]); 12] = [
    ("bool_tensor", &["a BOOL [4] 70+4"]),
    ("empty_dim", &["a F32 [0] 130+0", "b F32 [2] 130+8"]),
    ("empty_two", &["a F32 [3, 0] 194+0", "b F32 [0] 194+0", "c F32 [2] 194+8"]),
    ("f8_f4", &["a F8_E4M3 [4] 199+4", "b F8_E8M0 [4] 203+4", "c F4 [8] 207+4"]),
    ("misaligned_hdr", &["a F32 [2] 63+8"]),
    ("misaligned_tensor", &["a U8 [3] 130+3", "b F32 [2] 133+8"]),
    ("names_unicode_slash", &["模型/层.0/权重 ü F32 [2] 243+8", "../../etc/x F32 [2] 251+8", " F32 [2] 259+8"]),
    ("not_brace", &["a F32 [2] 63+8"]),
    ("ok", &["a F32 [2] 69+8"]),
    ("only_meta", &[]),
    ("scalar_0d", &["a F32 [] 68+4"]),
    ("unsorted", &["a F32 [2] 131+8", "b F32 [2] 139+8"]),
];

const REFUSED: [(&str, &str); 17] = [
    ("dup_key", "tensor `a` is listed twice"),
    ("dup_key_same", "tensor `a` is listed twice"),
    ("empty_file", "the file is empty"),
    ("hdr_len_huge", "the header claims 9223372036854775808 bytes; the format allows 100000000"),
    ("hdr_len_past_eof", "the header claims 5000 bytes; the file has 69 after the length field"),
    ("hole", "bytes 8..12 of the payload, before tensor `b`, belong to no tensor"),
    ("lfs_pointer", "it is a Git LFS pointer, not the file it points to"),
    (
        "meta_nonstring",
        "the header is not the JSON that the format asks for: `__metadata__`: `n`: invalid type: integer `3`, expected a string at \
         line 1 column 22",
    ),
    (
        "neg_shape",
        "the header is not the JSON that the format asks for: `a`: invalid value: integer `-2`, expected u64 at line 1 column 31",
    ),
    ("overlap", "tensors `a` and `b` overlap at byte 0 of the payload"),
    ("rev_offsets", "tensor `a`: data_offsets [8, 0] end before they begin"),
    ("shape_mismatch", "tensor `a`: shape [3] of F32 takes 12 bytes; its data_offsets [0, 8] span 8"),
    ("shape_overflow", "tensor `a`: shape [4294967296, 4294967296] of F32 is no whole number of bytes below 2^64"),
    ("trailing", "the last 4 bytes of the file belong to no tensor"),
    ("truncated", "tensor `a` ends at byte 16 of the payload, which has 8: the file is truncated"),
    ("unknown_dtype", "tensor `a` has the unknown dtype `Q4_K`"),
    ("zip_bin", "it is a zip archive (PyTorch's own format)"),
];

/// What the causes of `error` say, outermost first.
fn causes(error: &Error) -> String {
    let mut texts = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        texts.push(error.to_string());
        cause = error.source();
    }
    texts.join(": ")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cases/st")
}

#[test]
fn every_file_of_the_folder_is_judged() {
    let mut judged: Vec<String> = ACCEPTED.iter().map(|case| case.0).chain(REFUSED.iter().map(|case| case.0)).map(str::to_owned).collect();
    judged.sort();
    let present = plansmith_files::list(&folder()).unwrap();
    let names = present.iter().filter(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
    let names: Vec<&str> = names.map(|path| path.file_stem().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, judged);
    assert_eq!(names.len(), 29);
}

#[test]
fn good_files_are_read() {
    for (name, expected) in ACCEPTED {
        let summary = inspect_file(&folder().join(format!("{name}.safetensors"))).unwrap();
        let tensors: Vec<String> = summary
            .header
            .tensors
            .values()
            .map(|tensor| format!("{} {} {:?} {}+{}", tensor.name, tensor.dtype, tensor.shape, tensor.offset, tensor.bytes))
            .collect();
        assert_eq!(tensors, expected, "{name}");
    }
    let metadata = inspect_file(&folder().join("only_meta.safetensors")).unwrap().file.metadata;
    assert_eq!(metadata.get("format").map(String::as_str), Some("pt"));
}

#[test]
fn broken_files_are_refused_each_for_its_own_reason() {
    for (name, reason) in REFUSED {
        let path = folder().join(format!("{name}.safetensors"));
        let error = inspect_file(&path).expect_err(name);
        assert!(matches!(error, Error::Header { .. }), "{name}: {error:?}");
        assert_eq!(error.to_string(), format!("`{}` is no valid safetensors file", path.display()), "{name}");
        assert_eq!(causes(&error), reason, "{name}");
    }
}

#[test]
fn what_we_accept_the_reference_reader_reads_alike() {
    // `not_brace` starts with a blank, which the reference implementation tells from its specification by refusing; so it may differ.
    for (name, _) in ACCEPTED.iter().filter(|case| case.0 != "not_brace") {
        let path = folder().join(format!("{name}.safetensors"));
        let bytes = plansmith_files::read(&path).unwrap();
        let theirs = safetensors::SafeTensors::deserialize(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let ours = inspect_file(&path).unwrap().header;
        assert_eq!(theirs.len(), ours.tensors.len(), "{name}");
        for tensor in ours.tensors.values() {
            let view = theirs.tensor(&tensor.name).unwrap();
            let shape: Vec<u64> = view.shape().iter().map(|&dim| dim as u64).collect();
            assert_eq!(shape, tensor.shape, "{name}");
            let ours = &bytes[tensor.offset as usize..][..tensor.bytes as usize];
            assert_eq!(view.data(), ours, "{name}");
        }
    }
}

#[test]
fn what_lies_under_the_name_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let cases: [(&[u8], &str); 6] = [
        (b"\x80\x02}q\x00.\x80\x02}q\x00.", "it is a Python pickle (PyTorch's old format)"),
        (b"<!DOCTYPE html><html><head><title>404", "it is a web page or XML document"),
        (b"GGUF\x03\0\0\0\x10\0\0\0\0\0\0\0", "it is a GGUF file"),
        (b"{\"weight_map\": {\"a\": \"b\"}}", "it is JSON text"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "it is a gzip stream"),
        (b"abc", "it has 3 bytes; the length field alone takes 8"),
    ];
    for (bytes, reason) in cases {
        std::fs::write(&path, bytes).unwrap();
        let error = inspect_file(&path).unwrap_err();
        assert_eq!(causes(&error), reason);
        assert!(error.hint().is_some(), "{reason}");
    }
}

#[test]
fn fields_that_the_format_does_not_know_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.safetensors");
    let cases = [
        (r#"{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"scale":1}}"#, "`a`: unknown field `scale`"),
        (r#"{"a":{"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]}}"#, "`a`: duplicate field `dtype`"),
        (r#"{"a":{"dtype":"U8","shape":[0]}}"#, "`a`: missing field `data_offsets`"),
        (r#"{"__metadata__":{},"__metadata__":{}}"#, "`__metadata__` is there twice"),
        (r#"{"__metadata__":{"k":"1","k":"1"}}"#, "key `k` of `__metadata__` is there twice"),
        ("[]", "invalid type: sequence, expected an object of tensors by name"),
    ];
    for (json, reason) in cases {
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(json.as_bytes());
        std::fs::write(&path, bytes).unwrap();
        let text = causes(&inspect_file(&path).unwrap_err());
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn a_fifo_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert!(matches!(inspect_file(&path), Err(Error::NotAFile(_))));
}
