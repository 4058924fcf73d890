//! Damaged models: the reader may refuse or accept them, but neither panic nor accept what it says it refuses.
//!
//! Deterministic; `PLANSMITH_MUTATIONS` sets how many are tried on each seed file (default 500).
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::panic::catch_unwind;
use std::path::Path;

use plansmith_onnx::{check, data_files, decode, encode, external_files, signature, tensors, validate};

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

/// Field keys, lengths and numbers at the edges of protobuf and of the schema, and names that lead somewhere.
const TOKENS: [&[u8]; 16] = [
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02",
    b"\xff\xff\xff\xff\x0f",
    b"\x80",
    b"\x00",
    b"\x3a",
    b"\x2a\x00",
    b"\x0a\x00",
    b"\x32\x02\x0a\x00",
    b"\xa3\x06",
    b"\x70\x01",
    b"\x10\x08",
    b"../",
    b"/etc/passwd",
    b"\xff\xfe",
    b"-1",
];

fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Xorshift) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(8) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => {
                let end = at + random.below((bytes.len() - at).min(64));
                bytes.drain(at..end);
            }
            4 => {
                let from = random.below(other.len());
                let piece = &other[from..from + random.below((other.len() - from).min(256))];
                bytes.splice(at..at, piece.iter().copied());
            }
            5 => {
                let end = at + random.below((bytes.len() - at).min(8));
                bytes.splice(at..end, TOKENS[random.below(TOKENS.len())].iter().copied());
            }
            6 if !bytes.is_empty() => {
                let other = random.below(bytes.len());
                bytes.swap(at, other);
            }
            _ => bytes.extend(std::iter::repeat_n(random.next() as u8, random.below(16))),
        }
    }
}

/// Whether the model is one that a runtime may be given.
fn read(bytes: &[u8]) -> bool {
    let Ok(model) = decode(bytes) else { return false };
    let _ = (signature(&model), check(&model), encode(&model), data_files(&model, Path::new("/nowhere"), plansmith_onnx::Links::Followed));
    if validate(&model).is_err() {
        return false;
    }
    for file in external_files(&model).unwrap() {
        assert!(!file.is_empty() && file != ".." && !file.contains(['/', '\\', '\0']), "{file}");
    }
    for tensor in tensors(&model).into_iter().filter(|tensor| tensor.raw_data.is_some()) {
        let elements: i64 = tensor.dims.iter().product();
        assert!(elements >= 0 && tensor.raw_data().len() as i64 <= 16 * elements, "{tensor:?}");
    }
    let graph = model.graph.as_ref().unwrap();
    assert!(!graph.output.is_empty() && graph.node.iter().all(|node| !node.op_type().is_empty()));
    true
}

#[test]
fn damaged_models_never_panic() {
    let mutations = std::env::var("PLANSMITH_MUTATIONS").map_or(500, |text| text.parse().expect("PLANSMITH_MUTATIONS is a number"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = plansmith_files::list(&root.join("../../testdata/onnx_hostile")).unwrap();
    paths.extend(["every_field.onnx", "exporter.onnx"].map(|name| root.join("tests/data").join(name)));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "onnx"));
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).filter(|bytes| bytes.len() < 50_000).collect();
    assert!(seeds.len() > 130, "{}", seeds.len());
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    let mut accepted = 0;
    for seed in &seeds {
        for _ in 0..mutations {
            let mut bytes = seed.clone();
            let other = &seeds[random.below(seeds.len())];
            mutate(&mut bytes, other, &mut random);
            match catch_unwind(|| read(&bytes)) {
                Ok(good) => accepted += usize::from(good),
                Err(_) => panic!("panicked on {} bytes: {:x?}", bytes.len(), bytes),
            }
        }
    }
    assert!(accepted > 0 && accepted < seeds.len() * mutations, "{accepted}: the mutations reach both outcomes");
}

/// The corpus without the command around it: `expected.json` says which are wrong in their own bytes.
#[test]
fn the_hostile_corpus_is_refused_by_the_bytes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/onnx_hostile");
    let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    let of_the_file = text.matches("\"inspect\": false").count();
    let mut refused = 0;
    for path in plansmith_files::list(&folder).unwrap().iter().filter(|path| path.extension().is_some_and(|e| e == "onnx")) {
        let model = decode(&std::fs::read(path).unwrap());
        let valid = model.and_then(|model| validate(&model).and_then(|()| signature(&model).map(drop)));
        refused += usize::from(valid.is_err());
    }
    assert_eq!(refused + of_the_file, text.matches("\"inspect\":").count());
}
