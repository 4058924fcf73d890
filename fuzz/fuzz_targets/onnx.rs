//! Any bytes as an ONNX model: no panic in what reads one, what was read survives the round trip, and what is valid refers to nothing outside
//! its folder and holds as much as it says.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let Ok(model) = plansmith_onnx::decode(file) else { return };
    let _ = (plansmith_onnx::signature(&model), plansmith_onnx::check(&model));
    if plansmith_onnx::validate(&model).is_ok() {
        let graph = model.graph.as_ref().expect("decode demands a graph");
        assert!(!graph.output.is_empty() && graph.node.iter().all(|node| !node.op_type().is_empty()));
        for tensor in plansmith_onnx::tensors(&model) {
            let elements: i64 = tensor.dims.iter().product();
            assert!(elements >= 0 && tensor.raw_data().len() as i64 <= 16 * elements);
        }
    }
    if let Ok(files) = plansmith_onnx::external_files(&model) {
        assert!(files.iter().all(|file| !file.is_empty() && file != ".." && !file.contains(['/', '\\', '\0'])));
    }
    let bytes = plansmith_onnx::encode(&model);
    // Compared as bytes: a model may hold NaN, which is not equal to itself.
    let again = plansmith_onnx::decode(&bytes).map(|model| plansmith_onnx::encode(&model));
    assert!(again.is_ok_and(|again| again == bytes));
});
