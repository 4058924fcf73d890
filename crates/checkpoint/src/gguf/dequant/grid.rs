//! The codebooks of the `IQ` types: constants of the format, kept as packed codes in `grids.bin`.
//!
//! `tools/make_gguf_cases.py` writes the file from the tables of PyPI `gguf`. An entry of eight codes has two bits a code, one of
//! four codes has four bits a code, the first code lowest.

static GRIDS: &[u8; 9216] = include_bytes!("grids.bin");

/// A codebook: where it begins in the file, and what its codes stand for.
pub(super) struct Grid<const CODES: usize> {
    first: usize,
    values: [f32; CODES],
}

const TWO_BIT: [f32; 4] = [8.0, 25.0, 43.0, 0.0];

/// 256 entries of eight.
pub(super) const IQ2_XXS: Grid<4> = Grid { first: 0, values: TWO_BIT };
/// 512 entries of eight.
pub(super) const IQ2_XS: Grid<4> = Grid { first: 512, values: TWO_BIT };
/// 1024 entries of eight.
pub(super) const IQ2_S: Grid<4> = Grid { first: 1536, values: TWO_BIT };
/// 2048 entries of eight.
pub(super) const IQ1_S: Grid<4> = Grid { first: 3584, values: [-1.0, 0.0, 1.0, 0.0] };
/// 256 entries of four.
pub(super) const IQ3_XXS: Grid<8> = Grid { first: 7680, values: [4.0, 12.0, 20.0, 28.0, 36.0, 44.0, 52.0, 62.0] };
/// 512 entries of four.
pub(super) const IQ3_S: Grid<8> = Grid { first: 8192, values: [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0] };

impl Grid<4> {
    /// The eight values of entry `index`.
    pub(super) fn entry(&self, index: usize) -> [f32; 8] {
        let codes = codes(self.first, index);
        std::array::from_fn(|j| self.values[usize::from((codes >> (2 * j)) & 3)])
    }
}

impl Grid<8> {
    /// The four values of entry `index`.
    pub(super) fn entry(&self, index: usize) -> [f32; 4] {
        let codes = codes(self.first, index);
        std::array::from_fn(|j| self.values[usize::from((codes >> (4 * j)) & 7)])
    }
}

fn codes(first: usize, index: usize) -> u16 {
    u16::from_le_bytes([GRIDS[first + 2 * index], GRIDS[first + 2 * index + 1]])
}
