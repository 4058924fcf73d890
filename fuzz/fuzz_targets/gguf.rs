//! Any bytes as a GGUF file: no panic, and accepted tensors lie in the file, whole and apart.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use plansmith_checkpoint::gguf::Gguf;

fuzz_target!(|file: &[u8]| {
    let Ok(gguf) = Gguf::from_bytes(Path::new("fuzz.gguf"), file) else { return };
    let mut tensors: Vec<_> = gguf.tensors.values().filter(|tensor| tensor.bytes > 0).collect();
    tensors.sort_by_key(|tensor| tensor.offset);
    let mut end = 0;
    for tensor in tensors {
        let blocks = tensor.elements() / tensor.ggml_type.block_elements() as u64;
        assert_eq!(blocks * tensor.ggml_type.block_bytes() as u64, tensor.bytes);
        assert!(tensor.offset >= end);
        end = tensor.offset + tensor.bytes;
    }
    assert!(end <= file.len() as u64);
});
