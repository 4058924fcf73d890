//! Numbers that are −1, 0 or 1 times one scale.

use super::half_at;
use super::k_quants::two_bits;

/// 52 bytes of five (the last four: four) base-3 digits each, then the scale.
///
/// A byte is a fraction of 256; multiplying by 3ⁿ modulo 256 brings digit n to the top. 32 bytes hold elements 0–159,
/// 16 bytes 160–239, 4 bytes 240–255.
pub(super) fn tq1_0(block: &[u8; 54], out: &mut [f32; 256]) {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    let d = half_at(block, 52);
    for (bytes, first, digits) in [(&block[..32], 0, 5), (&block[32..48], 160, 5), (&block[48..52], 240, 4)] {
        for (digit, power) in POWERS.into_iter().enumerate().take(digits) {
            for (j, &byte) in bytes.iter().enumerate() {
                let digit_value = (u16::from(byte.wrapping_mul(power)) * 3) >> 8;
                out[first + digit * bytes.len() + j] = d * (f32::from(digit_value) - 1.0);
            }
        }
    }
}

/// 64 bytes of 2-bit numbers, then the scale; zero is 1.
pub(super) fn tq2_0(block: &[u8; 66], out: &mut [f32; 256]) {
    let d = half_at(block, 64);
    for (element, out) in out.iter_mut().enumerate() {
        *out = d * (f32::from(two_bits(block, element)) - 1.0);
    }
}
