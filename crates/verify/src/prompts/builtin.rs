//! The built-in prompt sets: token ids made from the vocabulary's size alone.

use super::{PromptSet, Prompts};
use crate::Error;

/// Columns of a long prompt that are kept from its start, and from its end.
const LONG_HEAD: usize = 32;
const LONG_TAIL: usize = 32;
const LONG: usize = 160;
/// Columns beyond a special length, and of those that are kept from the start and the end.
const PAST: usize = 40;
const PAST_HEAD: usize = 8;
const PAST_TAIL: usize = 48;
/// The longest special length that prompts are made for: attention over more takes minutes.
const LONGEST_SPECIAL: usize = 4096;

impl Prompts {
    /// Columns that a set has beyond a special length.
    pub const PAST_SPECIAL: usize = PAST;

    /// Token sequences for a model of `vocab` entries and `max_positions` positions, the same on every machine.
    ///
    /// They hold the lowest and highest ids (special tokens live there), ids spread evenly over the vocabulary, repetitions, and lengths
    /// 1, 7, 33, 64 and 160 as far as `max_positions` allows; a left-padded batch of four rows of different length, and a batch with a hole
    /// inside one row and padding on the right of another. Of the longest the first and last 32 columns are compared.
    ///
    /// `special` are lengths at which a model changes what it does (its smallest window, the length that its rotations switch at). Where 160
    /// columns do not pass one by 40, a set `past-N` does, as far as `max_positions` allows; not beyond 4,096. Of its columns the first 8 and last
    /// 48 are compared.
    ///
    /// # Errors
    /// `vocab` or `max_positions` is 0.
    pub fn builtin(vocab: usize, max_positions: usize, special: &[usize]) -> Result<Self, Error> {
        if vocab == 0 || max_positions == 0 {
            let problem = format!("a vocabulary of {vocab} and {max_positions} positions leave no prompt to make");
            return Err(Error::Prompt { set: "builtin".to_owned(), problem });
        }
        let ids = Ids { vocab: vocab as u64 };
        let last = vocab as i64 - 1;
        let clip = |mut row: Vec<i64>| {
            row.truncate(max_positions);
            row
        };
        let edges = [0, last, 1, last - 1, 2, last / 2, 3].map(|id| id.clamp(0, last));
        let mut repeated = ids.scattered(1, 32);
        repeated.extend_from_within(..);
        let mut sets = vec![
            PromptSet::new("one", 1, vec![1.min(last)], None, None, None)?,
            PromptSet::new("edges", 1, clip(edges.to_vec()), None, None, None)?,
            PromptSet::new("spread", 1, clip(ids.spread(33)), None, None, None)?,
            PromptSet::new("repeated", 1, clip(repeated), None, None, None)?,
        ];
        if max_positions > 64 {
            let row = clip(ids.scattered(2, LONG));
            let columns = (0..row.len()).filter(|&column| column < LONG_HEAD || column + LONG_TAIL >= row.len()).collect();
            sets.push(PromptSet::new("long", 1, row, None, None, Some(columns))?);
        }
        let passed = LONG.min(max_positions);
        let mut special: Vec<usize> =
            special.iter().copied().filter(|&length| length <= LONGEST_SPECIAL && length + PAST > passed).collect();
        special.sort_unstable();
        special.dedup();
        for length in special {
            let row = clip(ids.scattered(11 + length as u64, length + PAST));
            if row.len() <= length.max(passed) {
                continue;
            }
            let columns = (0..row.len()).filter(|&column| column < PAST_HEAD || column + PAST_TAIL >= row.len()).collect();
            sets.push(PromptSet::new(&format!("past-{length}"), 1, row, None, None, Some(columns))?);
        }
        let width = max_positions.min(20);
        if width >= 4 {
            sets.push(left_padded(&ids, width)?);
            sets.push(inner_padded(&ids, width)?);
        }
        Ok(Self::new(sets)?.limited_to(max_positions))
    }
}

/// Four rows: full, an eighth, a half and three quarters shorter, so that each is under way when the last columns are decoded.
fn left_padded(ids: &Ids, width: usize) -> Result<PromptSet, Error> {
    let lengths = [width, width - width.div_ceil(8), width / 2, width / 4];
    let mut input_ids = Vec::new();
    let mut mask = Vec::new();
    for (row, length) in lengths.into_iter().enumerate() {
        let pads = width - length;
        input_ids.extend(std::iter::repeat_n(0, pads).chain(ids.scattered(3 + row as u64, length)));
        mask.extend(std::iter::repeat_n(0, pads).chain(std::iter::repeat_n(1, length)));
    }
    PromptSet::new("left-padded", lengths.len(), input_ids, Some(mask), None, None)
}

/// Three rows: full, a hole of a quarter in the middle, the last quarter padded.
fn inner_padded(ids: &Ids, width: usize) -> Result<PromptSet, Error> {
    let hole = width / 4;
    let pads = [0..0, width / 2..width / 2 + hole, width - hole..width];
    let mut input_ids = Vec::new();
    let mut mask = Vec::new();
    for (row, pads) in pads.iter().enumerate() {
        for (column, id) in ids.scattered(7 + row as u64, width).into_iter().enumerate() {
            let padded = pads.contains(&column);
            input_ids.push(if padded { 0 } else { id });
            mask.push(i64::from(!padded));
        }
    }
    PromptSet::new("inner-padded", pads.len(), input_ids, Some(mask), None, None)
}

struct Ids {
    vocab: u64,
}

impl Ids {
    /// `count` ids evenly spread from the first to the last.
    fn spread(&self, count: u64) -> Vec<i64> {
        (0..count).map(|index| (index * (self.vocab - 1) / (count - 1)) as i64).collect()
    }

    /// `count` ids without an order: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
    fn scattered(&self, seed: u64, count: usize) -> Vec<i64> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) % self.vocab) as i64
        };
        std::iter::repeat_with(next).take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_cover_lengths_ids_and_padding() {
        let prompts = Prompts::builtin(49152, 8192, &[]).unwrap();
        let lengths: Vec<usize> = prompts.sets().iter().map(PromptSet::sequence).collect();
        assert_eq!(lengths, [1, 7, 33, 64, 160, 20, 20]);
        let ids: Vec<i64> = prompts.sets().iter().flat_map(|set| set.input_ids().to_vec()).collect();
        for id in [0, 1, 2, 3, 49150, 49151] {
            assert!(ids.contains(&id), "{id}");
        }
        for sixteenth in 0..16 {
            assert!(ids.iter().any(|id| id / 3072 == sixteenth), "no id in sixteenth {sixteenth}");
        }
        let set = |name: &str| prompts.sets().iter().find(|set| set.name() == name).unwrap().clone();
        assert_eq!(set("long").stored(), 64);
        let attended = |set: &PromptSet, row: usize| set.attention_mask()[row * 20..(row + 1) * 20].iter().sum::<i64>();
        assert_eq!([0, 1, 2, 3].map(|row| attended(&set("left-padded"), row)), [20, 17, 10, 5]);
        assert_eq!([0, 1, 2].map(|row| attended(&set("inner-padded"), row)), [20, 15, 15]);
        assert_eq!(set("inner-padded").position_ids()[20 + 15], 10, "positions go on after the hole");
    }

    #[test]
    fn small_models_get_prompts_that_fit() {
        for (vocab, positions) in [(1, 1), (2, 3), (5, 4), (256, 64), (300, 65)] {
            for set in Prompts::builtin(vocab, positions, &[1, 2, 3, 64, 4096]).unwrap().sets() {
                assert!(set.sequence() <= positions, "{} of {vocab}, {positions}", set.name());
                assert!(set.input_ids().iter().all(|&id| id < vocab as i64), "{} of {vocab}, {positions}", set.name());
            }
        }
        assert!(Prompts::builtin(0, 8, &[]).is_err());
    }

    #[test]
    fn special_lengths_are_passed() {
        let past = |positions: usize, special: &[usize]| -> Vec<(String, usize, usize)> {
            let prompts = Prompts::builtin(300, positions, special).unwrap();
            let past = prompts.sets().iter().filter(|set| set.name().starts_with("past-"));
            past.map(|set| (set.name().to_owned(), set.sequence(), set.stored())).collect()
        };
        assert_eq!(past(8192, &[16, 120]), [], "160 columns are enough");
        let both = [("past-121".to_owned(), 161, 56), ("past-4096".to_owned(), 4136, 56)];
        assert_eq!(past(8192, &[4096, 121, 4096]), both);
        assert_eq!(past(4100, &[4096, 4097]), [("past-4096".to_owned(), 4100, 56), ("past-4097".to_owned(), 4100, 56)][..1]);
        assert_eq!(past(4096, &[4096]), [], "there is no position beyond");
        assert_eq!(past(128, &[100]), [], "the longest prompt has all positions already");
    }

    #[test]
    fn scattered_ids_are_those_of_splitmix64() {
        // First outputs of SplitMix64 seeded with 1234567, as published with the Rosetta Code task "Pseudo-random numbers/Splitmix64".
        let whole = [6457827717110365317_u64, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821];
        let vocab = 1_000_003;
        assert_eq!(Ids { vocab }.scattered(1234567, 5), whole.map(|value| (value % vocab) as i64));
    }
}
