//! Every ggml type, bit for bit.

use plansmith_checkpoint::gguf::{GgmlType, dequantize};
use safetensors::SafeTensors;

use crate::testdata;

#[test]
fn every_type_decodes_to_the_bits_of_pypi_gguf() {
    let file = std::fs::read(testdata("blocks.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let mut covered = 0;
    for ggml_type in (0..64).filter_map(GgmlType::from_id).filter(|ggml_type| ggml_type.holds_weights()) {
        let blocks = tensors.tensor(&format!("{ggml_type}.blocks")).unwrap();
        let expected = tensors.tensor(&format!("{ggml_type}.values")).unwrap();
        let expected: Vec<u32> = expected.data().as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let mut values = vec![0.0; expected.len()];
        assert!(dequantize(ggml_type, blocks.data(), &mut values), "{ggml_type}");
        for (index, (value, expected)) in values.iter().zip(&expected).enumerate() {
            assert_eq!(value.to_bits(), *expected, "{ggml_type}, element {index}: {value} for {}", f32::from_bits(*expected));
        }
        assert!(expected.iter().any(|&bits| bits != expected[0]), "{ggml_type}: the case is trivial");
        covered += 1;
    }
    assert_eq!(covered, 28);
}

#[test]
fn types_without_weights_are_left_alone() {
    let mut out = [1.5; 32];
    assert!(!dequantize(GgmlType::Q8_1, &[0; 40], &mut out));
    assert_eq!(out, [1.5; 32]);
}
