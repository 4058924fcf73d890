//! Damaged headers and indices: the readers may refuse or accept, but neither panic nor accept ranges that the file does not have.
//!
//! Deterministic; `PLANSMITH_MUTATIONS` sets how many are tried on each seed file (default 300).
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::panic::catch_unwind;
use std::path::Path;

use plansmith_checkpoint::{Header, Index};

struct Xorshift(u64);

impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Numbers and pieces of syntax that sit at the edges of what the format allows.
const TOKENS: [&[u8]; 24] = [
    b"18446744073709551615",
    b"9223372036854775808",
    b"4294967296",
    b"-1",
    b"0",
    b"1e999",
    b"0.5",
    b"null",
    b"[]",
    b"{}",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    b"\"a\"",
    b"\"F4\"",
    b"\"F6_E2M3\"",
    b"\"C64\"",
    b"\"__metadata__\":",
    b"\"data_offsets\":",
    b"\"shape\":",
    b"\\ud800",
    b"\xff\xfe",
    b"\0",
    b",",
    b"../",
    b".safetensors",
];

fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Xorshift) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(8) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => {
                let end = at + random.below(bytes.len() - at);
                bytes.drain(at..end);
            }
            4 => {
                let from = random.below(other.len());
                let piece = &other[from..from + random.below(other.len() - from)];
                bytes.splice(at..at, piece.iter().copied());
            }
            5 => {
                let end = at + random.below((bytes.len() - at).min(8));
                bytes.splice(at..end, TOKENS[random.below(TOKENS.len())].iter().copied());
            }
            6 if bytes.len() >= 8 => {
                // A length field that fits what follows lets the damage reach the JSON reader.
                let length = (bytes.len() - 8 - random.below(bytes.len() - 7)) as u64;
                bytes[..8].copy_from_slice(&length.to_le_bytes());
            }
            _ => bytes.extend(std::iter::repeat_n(random.next() as u8, random.below(16))),
        }
    }
}

fn mutations() -> usize {
    std::env::var("PLANSMITH_MUTATIONS").map_or(300, |text| text.parse().expect("PLANSMITH_MUTATIONS is a number"))
}

fn seeds(pattern: &str, folders: &[&str]) -> Vec<Vec<u8>> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cases");
    let paths = folders.iter().flat_map(|folder| plansmith_files::list(&cases.join(folder)).unwrap());
    paths.filter(|path| path.to_string_lossy().ends_with(pattern)).map(|path| std::fs::read(path).unwrap()).collect()
}

/// Runs `read` on mutations of every seed; returns how many it accepted.
fn run(seeds: &[Vec<u8>], read: fn(&[u8]) -> bool) -> usize {
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    let mut accepted = 0;
    for seed in seeds {
        for _ in 0..mutations() {
            let mut bytes = seed.clone();
            let other = &seeds[random.below(seeds.len())];
            mutate(&mut bytes, other, &mut random);
            match catch_unwind(|| read(&bytes)) {
                Ok(good) => accepted += usize::from(good),
                Err(_) => panic!("panicked on {:?}", String::from_utf8_lossy(&bytes)),
            }
        }
    }
    accepted
}

fn read_header(bytes: &[u8]) -> bool {
    let Ok(header) = Header::of_file_bytes(bytes) else { return false };
    let size = bytes.len() as u64;
    let mut end = header.payload;
    for tensor in header.tensors.values() {
        assert_eq!(tensor.offset, end, "tensors tile the payload");
        assert_eq!(tensor.dtype.tensor_bytes(&tensor.shape), Some(tensor.bytes));
        end += tensor.bytes;
    }
    assert_eq!(end, size);
    true
}

fn read_index(bytes: &[u8]) -> bool {
    let Ok(index) = Index::parse(bytes) else { return false };
    assert!(index.weight_map.values().all(|file| !file.contains('/') && file.ends_with(".safetensors")));
    true
}

#[test]
fn damaged_headers_never_panic() {
    let seeds = seeds(".safetensors", &["st"]);
    assert_eq!(seeds.len(), 29);
    let accepted = run(&seeds, read_header);
    assert!(accepted > 0 && accepted < seeds.len() * mutations(), "{accepted}: the mutations reach both outcomes");
}

#[test]
fn damaged_indices_never_panic() {
    let seeds = seeds(".index.json", &["shard_ok", "index_path_traversal", "index_names_absent_tensor"]);
    assert_eq!(seeds.len(), 3);
    let accepted = run(&seeds, read_index);
    assert!(accepted > 0 && accepted < seeds.len() * mutations(), "{accepted}: the mutations reach both outcomes");
}
