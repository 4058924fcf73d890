//! Mutated headers: no input may make the reader panic or ask for more memory than the file justifies.

use std::fs;

use plansmith_checkpoint::gguf::{Gguf, ImportOptions, import};
use plansmith_tensor::DType;

use crate::testdata;

/// How many mutants to try; `PLANSMITH_MUTATIONS` overrides.
fn count() -> u64 {
    std::env::var("PLANSMITH_MUTATIONS").map_or(1_500, |text| text.parse().expect("PLANSMITH_MUTATIONS is a number"))
}

/// SplitMix64 (Steele, Lea, Flood 2014): the same sequence everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// One to four changes within the first `header` bytes.
fn mutate(file: &mut Vec<u8>, header: usize, random: &mut Random) {
    const WORDS: [u64; 8] = [0, 1, 0x7f, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, u64::MAX, 1 << 40, 9];
    for _ in 0..=random.below(3) {
        let at = random.below(header.min(file.len()).saturating_sub(8).max(1));
        match random.below(5) {
            0 => file[at] ^= 1 << random.below(8),
            1 => file[at] = random.next() as u8,
            2 if at + 8 <= file.len() => file[at..at + 8].copy_from_slice(&WORDS[random.below(WORDS.len())].to_le_bytes()),
            3 => file.truncate(at.max(1)),
            _ => {
                let bytes = file[at..(at + random.below(24)).min(file.len())].to_vec();
                file.splice(at..at, bytes);
            }
        }
    }
}

#[test]
fn no_mutant_makes_it_panic() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("mutant.gguf");
    let folder = parent.path().join("model");
    let options = ImportOptions { dtype: DType::BF16, force: true };
    let mut random = Random(2);
    let (mut refused, mut imported) = (0, 0);
    for name in ["tiny.gguf", "tiny_spm.gguf"] {
        let seed = fs::read(testdata(name)).unwrap();
        let gguf = Gguf::open(&testdata(name)).unwrap();
        let header = gguf.tensors.values().map(|tensor| tensor.offset).min().unwrap() as usize;
        for _ in 0..count() / 2 {
            let mut file = seed.clone();
            mutate(&mut file, header, &mut random);
            if Gguf::from_bytes(&path, &file).is_err() {
                refused += 1;
                continue;
            }
            // The header holds: the rest of the import must take it or refuse it.
            fs::write(&path, &file).unwrap();
            match import(&path, &folder, &options, &|_, _| {}) {
                Ok(_) => imported += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > imported && imported > 0, "{refused} refused, {imported} imported: the mutations are too wild or too tame");
}
