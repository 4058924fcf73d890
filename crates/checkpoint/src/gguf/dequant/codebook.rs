//! Super-blocks of 256 whose elements come, by fours or eights, from a codebook.

use half::f16;

use super::grid::{self, Grid};
use super::{half_at, nibble, u16_at, u32_at};

/// Scale, then for each 32 elements: four bytes of indices, and a word of four 7-bit sign codes and a 4-bit scale.
pub(super) fn iq2_xxs(block: &[u8; 66], out: &mut [f32; 256]) {
    let d = half_at(block, 0);
    for (entry, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let (part, l) = (entry / 4, entry % 4);
        let word = u32_at(block, 2 + part * 8 + 4);
        let scale = d * (0.5 + (word >> 28) as f32) * 0.25;
        let index = usize::from(block[2 + part * 8 + l]);
        signed(&grid::IQ2_XXS.entry(index), even_signs(word >> (7 * l)), scale, out);
    }
}

/// Scale, 32 words of a 9-bit index and a 7-bit sign code, eight bytes of 4-bit scales for 16 elements each.
pub(super) fn iq2_xs(block: &[u8; 74], out: &mut [f32; 256]) {
    let d = half_at(block, 0);
    for (entry, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let word = u16_at(block, 2 + entry * 2);
        let scale = d * (0.5 + f32::from(nibble(&block[66..], entry / 2))) * 0.25;
        signed(&grid::IQ2_XS.entry(usize::from(word & 511)), even_signs(u32::from(word >> 9)), scale, out);
    }
}

/// Scale, 32 low bytes of indices, 32 bytes of signs, 8 bytes with two upper bits an index, 8 bytes of 4-bit scales.
pub(super) fn iq2_s(block: &[u8; 82], out: &mut [f32; 256]) {
    let d = half_at(block, 0);
    for (entry, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let high = (block[66 + entry / 4] >> (2 * (entry % 4))) & 3;
        let index = usize::from(block[2 + entry]) | (usize::from(high) << 8);
        let scale = d * (0.5 + f32::from(nibble(&block[74..], entry / 2))) * 0.25;
        signed(&grid::IQ2_S.entry(index), block[34 + entry], scale, out);
    }
}

/// Scale, 64 indices, then for each 32 elements a word of four 7-bit sign codes and a 4-bit scale.
pub(super) fn iq3_xxs(block: &[u8; 98], out: &mut [f32; 256]) {
    let d = half_at(block, 0);
    for (entry, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let word = u32_at(block, 66 + entry / 4 * 4);
        let scale = d * (0.5 + (word >> 28) as f32) * 0.5;
        let indices = [usize::from(block[2 + entry * 2]), usize::from(block[3 + entry * 2])];
        signed(&pair(&grid::IQ3_XXS, indices), even_signs(word >> (7 * (entry % 4))), scale, out);
    }
}

/// Scale, 64 low bytes of indices, 8 bytes of their ninth bits, 32 bytes of signs, 4 bytes of 4-bit scales for 32 elements each.
pub(super) fn iq3_s(block: &[u8; 110], out: &mut [f32; 256]) {
    let d = half_at(block, 0);
    for (entry, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let index = |i: usize| usize::from(block[2 + i]) | (usize::from((block[66 + i / 8] >> (i % 8)) & 1) << 8);
        let scale = d * f32::from(1 + 2 * nibble(&block[106..], entry / 4));
        signed(&pair(&grid::IQ3_S, [index(entry * 2), index(entry * 2 + 1)]), block[74 + entry], scale, out);
    }
}

/// Scale, 32 low bytes of indices, then for each 32 elements a word of four upper 3-bit parts, a 3-bit scale and the sign of the shift.
pub(super) fn iq1_s(block: &[u8; 50], out: &mut [f32; 256]) {
    let d = half_at(block, 0);
    for (entry, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let word = u16_at(block, 34 + entry / 4 * 2);
        let index = usize::from(block[2 + entry]) | (usize::from((word >> (3 * (entry % 4))) & 7) << 8);
        let scale = d * f32::from(2 * ((word >> 12) & 7) + 1);
        shifted(index, word & 0x8000 != 0, scale, out);
    }
}

/// 32 low bytes of indices, 16 bytes of nibbles (upper 3 bits, sign of the shift), four words of four 3-bit scales for 16 elements
/// each, whose top nibbles together are the fp16 scale of the whole.
pub(super) fn iq1_m(block: &[u8; 56], out: &mut [f32; 256]) {
    let words: [u16; 4] = std::array::from_fn(|i| u16_at(block, 48 + 2 * i));
    let bits = (words[0] >> 12) | ((words[1] >> 12) << 4) | ((words[2] >> 12) << 8) | (words[3] & 0xf000);
    let d = f16::from_bits(bits).to_f32();
    for (entry, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let upper = nibble(&block[32..48], entry);
        let index = usize::from(block[entry]) | (usize::from(upper & 7) << 8);
        let part = entry / 2;
        let scale = d * f32::from(2 * ((words[part / 4] >> (3 * (part % 4))) & 7) + 1);
        shifted(index, upper & 8 != 0, scale, out);
    }
}

/// Two entries of four side by side.
fn pair(grid: &Grid<8>, indices: [usize; 2]) -> [f32; 8] {
    let [first, second] = indices.map(|index| grid.entry(index));
    std::array::from_fn(|j| if j < 4 { first[j] } else { second[j - 4] })
}

/// Eight signs from seven bits: the eighth makes their number even.
fn even_signs(code: u32) -> u8 {
    let code = (code & 127) as u8;
    code | (((code.count_ones() & 1) as u8) << 7)
}

/// `scale` × value, negated where the bit in `signs` is set.
fn signed(values: &[f32; 8], signs: u8, scale: f32, out: &mut [f32; 8]) {
    for (j, (out, value)) in out.iter_mut().zip(values).enumerate() {
        *out = scale * value * if (signs >> j) & 1 == 1 { -1.0 } else { 1.0 };
    }
}

/// `scale` × (value ± ⅛).
fn shifted(index: usize, down: bool, scale: f32, out: &mut [f32; 8]) {
    let shift = if down { -0.125 } else { 0.125 };
    for (out, value) in out.iter_mut().zip(grid::IQ1_S.entry(index)) {
        *out = scale * (value + shift);
    }
}
