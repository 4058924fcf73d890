//! Nibbles that index a table of sixteen values.

use super::{half_at, nibble, u16_at};

/// The values of the non-linear 4-bit types.
const NON_LINEAR: [f32; 16] = [-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0];

/// The values of E2M1, doubled. ggml keeps integers, so there is no negative zero.
const E2M1_DOUBLED: [f32; 16] = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

/// Scale (fp16), 16 bytes of nibbles.
pub(super) fn iq4_nl(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    split_nibbles(&block[2..], &NON_LINEAR, d, out);
}

/// Scale, eight 6-bit scales (upper bits in one word, lower in four bytes), 128 bytes of nibbles.
pub(super) fn iq4_xs(block: &[u8; 136], out: &mut [f32; 256]) {
    let (d, high) = (half_at(block, 0), u16_at(block, 2));
    for (part, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let high = ((high >> (2 * part)) & 3) as u8;
        let scale = d * (f32::from(nibble(&block[4..8], part) | (high << 4)) - 32.0);
        split_nibbles(&block[8 + part * 16..][..16], &NON_LINEAR, scale, out);
    }
}

/// One E8M0 scale, 16 bytes of E2M1 (OCP Microscaling Formats 1.0).
pub(super) fn mxfp4(block: &[u8; 17], out: &mut [f32; 32]) {
    let exponent = u32::from(block[0]);
    // Half of 2^(exponent − 127), for the table is doubled; below 2 it is a subnormal number.
    let bits = if exponent < 2 { 0x0020_0000 << exponent } else { (exponent - 1) << 23 };
    split_nibbles(&block[1..], &E2M1_DOUBLED, f32::from_bits(bits), out);
}

/// Low nibbles are elements 0–15, high ones 16–31.
fn split_nibbles(bytes: &[u8], table: &[f32; 16], scale: f32, out: &mut [f32; 32]) {
    for (j, &byte) in bytes.iter().enumerate() {
        out[j] = scale * table[usize::from(byte & 15)];
        out[j + 16] = scale * table[usize::from(byte >> 4)];
    }
}

/// Four unsigned E4M3 scales, each for 16 elements in 8 bytes: low nibbles first, then the high ones.
pub(super) fn nvfp4(block: &[u8; 36], out: &mut [f32; 64]) {
    for (part, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = unsigned_e4m3_halved(block[part]);
        for (j, &byte) in block[4 + part * 8..][..8].iter().enumerate() {
            out[j] = scale * E2M1_DOUBLED[usize::from(byte & 15)];
            out[j + 8] = scale * E2M1_DOUBLED[usize::from(byte >> 4)];
        }
    }
}

/// E4M3 without its sign, halved for the doubled table; the pattern of NaN is zero.
fn unsigned_e4m3_halved(byte: u8) -> f32 {
    let (exponent, mantissa) = ((byte >> 3) & 15, f32::from(byte & 7));
    let value = match exponent {
        _ if byte == 0x7f => 0.0,
        0 => mantissa / 512.0,
        _ => (1.0 + mantissa / 8.0) * f32::from_bits((u32::from(exponent) + 120) << 23),
    };
    value * 0.5
}
