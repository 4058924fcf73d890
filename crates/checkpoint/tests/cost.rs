//! What opening and converting cost, as the kernel counts it. One test, so that nothing else in this process reads or allocates.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::io::Write as _;

use plansmith_checkpoint::{Checkpoint, Planned, write_safetensors};
use plansmith_tensor::DType;

const PAYLOAD: u64 = 128 << 20;

/// The number behind `key` in a file of `/proc/self`.
fn counter(file: &str, key: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn opening_reads_headers_only_and_converting_holds_a_few_pieces() {
    let dir = tempfile::tempdir().unwrap();
    // A sparse file: 128 MiB of zeros that take no room on the disk.
    let json = format!(r#"{{"a":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{PAYLOAD}]}}}}"#, PAYLOAD / 4);
    let mut file = std::fs::File::create(dir.path().join("model.safetensors")).unwrap();
    file.write_all(&(json.len() as u64).to_le_bytes()).unwrap();
    file.write_all(json.as_bytes()).unwrap();
    file.set_len(8 + json.len() as u64 + PAYLOAD).unwrap();

    let before = counter("io", "rchar:");
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let read = counter("io", "rchar:") - before;
    assert!(read < 8192, "opening read {read} bytes");

    let plan = [Planned { name: "a".to_owned(), source: "a".to_owned(), dtype: DType::F16 }];
    let written = write_safetensors(&dir.path().join("half.safetensors"), &plan, &checkpoint, &|_| ()).unwrap();
    assert_eq!(written.layout.tensors["a"].bytes, PAYLOAD / 2);
    let peak = counter("status", "VmHWM:");
    assert!(peak < 64 << 10, "peak memory is {peak} kB");

    let mapped = checkpoint.map().unwrap();
    let tensor = checkpoint.tensor("a").unwrap();
    assert!(mapped.bytes(tensor).iter().all(|byte| *byte == 0));
    let touched = counter("status", "VmRSS:");
    mapped.release(tensor);
    let released = counter("status", "VmRSS:");
    assert!(touched > PAYLOAD >> 10 && released < 64 << 10, "{touched} kB were resident, {released} kB after the release");
}
