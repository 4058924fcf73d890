//! Blocks of 32 with one scale, and for some one minimum.

use super::{half_at, u32_at};

/// Scale (fp16), 16 bytes of nibbles: the low ones are elements 0–15, the high ones 16–31; zero is 8.
pub(super) fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    for j in 0..16 {
        let byte = block[2 + j];
        out[j] = d * (f32::from(byte & 15) - 8.0);
        out[j + 16] = d * (f32::from(byte >> 4) - 8.0);
    }
}

/// Scale, minimum (fp16 both), 16 bytes of nibbles.
pub(super) fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    for j in 0..16 {
        let byte = block[4 + j];
        out[j] = d * f32::from(byte & 15) + m;
        out[j + 16] = d * f32::from(byte >> 4) + m;
    }
}

/// Scale, 32 fifth bits, 16 bytes of nibbles; zero is 16.
pub(super) fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let (d, high) = (half_at(block, 0), u32_at(block, 2));
    for j in 0..16 {
        let (low, upper) = five_bits(block[6 + j], high, j);
        out[j] = d * (f32::from(low) - 16.0);
        out[j + 16] = d * (f32::from(upper) - 16.0);
    }
}

/// Scale, minimum, 32 fifth bits, 16 bytes of nibbles.
pub(super) fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (d, m, high) = (half_at(block, 0), half_at(block, 2), u32_at(block, 4));
    for j in 0..16 {
        let (low, upper) = five_bits(block[8 + j], high, j);
        out[j] = d * f32::from(low) + m;
        out[j + 16] = d * f32::from(upper) + m;
    }
}

/// Elements `j` and `j + 16`, their fifth bits taken from `high`.
fn five_bits(byte: u8, high: u32, j: usize) -> (u8, u8) {
    let bit = |index: usize| (((high >> index) & 1) as u8) << 4;
    ((byte & 15) | bit(j), (byte >> 4) | bit(j + 16))
}

/// Scale, 32 signed bytes.
pub(super) fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    for (out, &byte) in out.iter_mut().zip(&block[2..]) {
        *out = f32::from(byte as i8) * d;
    }
}
