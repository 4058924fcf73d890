//! Any bytes as an ONNX model: no panic in what reads one, and what was read survives the round trip.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let Ok(model) = plansmith_onnx::decode(file) else { return };
    let _ = (plansmith_onnx::signature(&model), plansmith_graph::check(&model));
    if let Ok(files) = plansmith_onnx::external_files(&model) {
        assert!(files.iter().all(|file| !file.is_empty() && file != ".." && !file.contains(['/', '\\', '\0'])));
    }
    let bytes = plansmith_onnx::encode(&model);
    // Compared as bytes: a model may hold NaN, which is not equal to itself.
    let again = plansmith_onnx::decode(&bytes).map(|model| plansmith_onnx::encode(&model));
    assert!(again.is_ok_and(|again| again == bytes));
});
