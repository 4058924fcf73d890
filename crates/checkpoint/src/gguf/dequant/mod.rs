//! Blocks of every ggml type back to fp32, bit for bit as the `gguf` package computes them.
//!
//! Source: `gguf/quants.py` of PyPI `gguf` 0.19; the order of the fp32 operations is its order, since another one rounds otherwise.

mod codebook;
mod four_bit;
mod grid;
mod k_quants;
mod legacy;
mod ternary;

use half::{bf16, f16};

use super::GgmlType;

/// Decodes whole blocks of `ggml_type` into `out`.
///
/// `blocks` holds n × [`GgmlType::block_bytes`] bytes and `out` n × [`GgmlType::block_elements`] numbers. `F64` is rounded to
/// nearest even; all else is decoded as the format defines it. Returns false, with `out` untouched, for types that hold no weights.
///
/// # Panics
/// Where the two lengths do not fit together.
pub fn dequantize(ggml_type: GgmlType, blocks: &[u8], out: &mut [f32]) -> bool {
    assert_eq!(blocks.len() % ggml_type.block_bytes(), 0, "whole blocks of {ggml_type}");
    assert_eq!(blocks.len() / ggml_type.block_bytes() * ggml_type.block_elements(), out.len(), "room for the blocks of {ggml_type}");
    match ggml_type {
        GgmlType::F32 => each(blocks, out, |bytes: &[u8; 4], [out]| *out = f32::from_le_bytes(*bytes)),
        GgmlType::F64 => each(blocks, out, |bytes: &[u8; 8], [out]| *out = f64::from_le_bytes(*bytes) as f32),
        GgmlType::F16 => each(blocks, out, |bytes: &[u8; 2], [out]| *out = f16::from_le_bytes(*bytes).to_f32()),
        GgmlType::BF16 => each(blocks, out, |bytes: &[u8; 2], [out]| *out = bf16::from_le_bytes(*bytes).to_f32()),
        GgmlType::Q4_0 => each(blocks, out, legacy::q4_0),
        GgmlType::Q4_1 => each(blocks, out, legacy::q4_1),
        GgmlType::Q5_0 => each(blocks, out, legacy::q5_0),
        GgmlType::Q5_1 => each(blocks, out, legacy::q5_1),
        GgmlType::Q8_0 => each(blocks, out, legacy::q8_0),
        GgmlType::Q2_K => each(blocks, out, k_quants::q2_k),
        GgmlType::Q3_K => each(blocks, out, k_quants::q3_k),
        GgmlType::Q4_K => each(blocks, out, k_quants::q4_k),
        GgmlType::Q5_K => each(blocks, out, k_quants::q5_k),
        GgmlType::Q6_K => each(blocks, out, k_quants::q6_k),
        GgmlType::Q8_K => each(blocks, out, k_quants::q8_k),
        GgmlType::IQ1_S => each(blocks, out, codebook::iq1_s),
        GgmlType::IQ1_M => each(blocks, out, codebook::iq1_m),
        GgmlType::IQ2_XXS => each(blocks, out, codebook::iq2_xxs),
        GgmlType::IQ2_XS => each(blocks, out, codebook::iq2_xs),
        GgmlType::IQ2_S => each(blocks, out, codebook::iq2_s),
        GgmlType::IQ3_XXS => each(blocks, out, codebook::iq3_xxs),
        GgmlType::IQ3_S => each(blocks, out, codebook::iq3_s),
        GgmlType::IQ4_NL => each(blocks, out, four_bit::iq4_nl),
        GgmlType::IQ4_XS => each(blocks, out, four_bit::iq4_xs),
        GgmlType::MXFP4 => each(blocks, out, four_bit::mxfp4),
        GgmlType::NVFP4 => each(blocks, out, four_bit::nvfp4),
        GgmlType::TQ1_0 => each(blocks, out, ternary::tq1_0),
        GgmlType::TQ2_0 => each(blocks, out, ternary::tq2_0),
        GgmlType::Q8_1 | GgmlType::I8 | GgmlType::I16 | GgmlType::I32 | GgmlType::I64 => return false,
    }
    true
}

/// Decodes block after block; `B` bytes become `E` numbers.
fn each<const B: usize, const E: usize>(blocks: &[u8], out: &mut [f32], decode: impl Fn(&[u8; B], &mut [f32; E])) {
    for (block, out) in blocks.as_chunks::<B>().0.iter().zip(out.as_chunks_mut::<E>().0) {
        decode(block, out);
    }
}

/// The fp16 number at byte `at` of a block.
fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// The little-endian 16-bit word at byte `at` of a block.
fn u16_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

/// The little-endian 32-bit word at byte `at` of a block.
fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

/// Nibble `index` of packed bytes, low nibbles first.
fn nibble(bytes: &[u8], index: usize) -> u8 {
    (bytes[index / 2] >> (4 * (index % 2))) & 15
}
