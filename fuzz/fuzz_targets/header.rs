//! Any bytes as a safetensors file: no panic, and accepted tensors tile the payload exactly.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plansmith_checkpoint::Header;

fuzz_target!(|file: &[u8]| {
    let Ok(header) = Header::of_file_bytes(file) else { return };
    let mut end = header.payload;
    for tensor in header.tensors.values() {
        assert_eq!(tensor.offset, end);
        assert_eq!(tensor.dtype.tensor_bytes(&tensor.shape), Some(tensor.bytes));
        end += tensor.bytes;
    }
    assert_eq!(end, file.len() as u64);
});
