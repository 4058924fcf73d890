//! Super-blocks of 256 whose parts have scales, and for some minima, that are quantised themselves.

use super::half_at;

/// 16 bytes of scale (low) and minimum (high nibble), 64 bytes of 2-bit numbers, scale and minimum of the whole (fp16).
pub(super) fn q2_k(block: &[u8; 84], out: &mut [f32; 256]) {
    let (d, dmin) = (half_at(block, 80), half_at(block, 82));
    for (part, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = d * f32::from(block[part] & 15);
        let min = dmin * f32::from(block[part] >> 4);
        for (j, out) in out.iter_mut().enumerate() {
            *out = scale * f32::from(two_bits(&block[16..80], part * 16 + j)) - min;
        }
    }
}

/// 32 bytes of third bits, 64 bytes of 2-bit numbers, 12 bytes of 6-bit scales, scale of the whole.
pub(super) fn q3_k(block: &[u8; 110], out: &mut [f32; 256]) {
    let d = half_at(block, 108);
    let packed = &block[96..108];
    for (part, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let low = (packed[part % 8] >> (4 * (part / 8))) & 15;
        let high = (packed[8 + part % 4] >> (2 * (part / 4))) & 3;
        let scale = d * (f32::from(low | (high << 4)) - 32.0);
        for (j, out) in out.iter_mut().enumerate() {
            let element = part * 16 + j;
            let third = (block[element % 32] >> (element / 32)) & 1;
            // A set bit means that nothing is taken off.
            let q = f32::from(two_bits(&block[32..96], element)) - if third == 1 { 0.0 } else { 4.0 };
            *out = scale * q;
        }
    }
}

/// Element `element` of 256 2-bit numbers: each run of 32 bytes holds 128 of them, the lowest bits first.
pub(super) fn two_bits(bytes: &[u8], element: usize) -> u8 {
    (bytes[element / 128 * 32 + element % 32] >> (2 * (element % 128 / 32))) & 3
}

/// Scale and minimum (fp16), eight 6-bit scales and minima in 12 bytes, 128 bytes of nibbles.
pub(super) fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    for (part, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, min) = scale_and_min(&block[4..16], part);
        let (scale, min) = (d * f32::from(scale), dmin * f32::from(min));
        for (j, out) in out.iter_mut().enumerate() {
            *out = scale * f32::from(paired_nibble(&block[16..], part, j)) - min;
        }
    }
}

/// As `q4_k`, with 32 bytes of fifth bits before the nibbles.
pub(super) fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    for (part, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, min) = scale_and_min(&block[4..16], part);
        let (scale, min) = (d * f32::from(scale), dmin * f32::from(min));
        for (j, out) in out.iter_mut().enumerate() {
            let fifth = (block[16 + j] >> part) & 1;
            *out = scale * f32::from(paired_nibble(&block[48..], part, j) | (fifth << 4)) - min;
        }
    }
}

/// Element `j` of part `part` (of 32): two parts share 32 bytes, the even one has the low nibbles.
fn paired_nibble(bytes: &[u8], part: usize, j: usize) -> u8 {
    (bytes[part / 2 * 32 + j] >> (4 * (part % 2))) & 15
}

/// The 6-bit scale and minimum of part `part` of eight. Parts 4–7 keep their upper two bits in the top of the first eight bytes.
fn scale_and_min(packed: &[u8], part: usize) -> (u8, u8) {
    if part < 4 {
        (packed[part] & 63, packed[part + 4] & 63)
    } else {
        let low = packed[part + 4];
        ((low & 15) | ((packed[part - 4] >> 2) & 48), (low >> 4) | ((packed[part] >> 2) & 48))
    }
}

/// 128 bytes of low nibbles, 64 bytes of upper 2 bits, 16 signed scales, scale of the whole; zero is 32.
pub(super) fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let d = half_at(block, 208);
    for (part, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = d * f32::from(block[192 + part] as i8);
        for (j, out) in out.iter_mut().enumerate() {
            let element = part * 16 + j;
            let low = (block[element / 128 * 64 + element % 64] >> (4 * (element % 128 / 64))) & 15;
            let high = two_bits(&block[128..192], element);
            *out = scale * (f32::from(low | (high << 4)) - 32.0);
        }
    }
}

/// Scale (fp32), 256 signed bytes, 16 sums that only products use. Source: `block_q8_K` in ggml's `ggml-common.h`.
pub(super) fn q8_k(block: &[u8; 292], out: &mut [f32; 256]) {
    let d = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
    for (out, &byte) in out.iter_mut().zip(&block[4..260]) {
        *out = d * f32::from(byte as i8);
    }
}
