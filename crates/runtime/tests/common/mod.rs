//! Graphs, golden logits and the three ways of running them.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and shows what it found")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plansmith_runtime::{GraphSource, OpenOptions, RuntimeKind, Session, open};
use plansmith_tensor::{Batch, Logits};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;

pub(crate) fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/runtime").join(path)
}

pub(crate) fn open_file(kind: RuntimeKind, path: &Path) -> Box<dyn Session> {
    open(kind, GraphSource::File(path), &OpenOptions::default()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One set of a golden file.
pub(crate) struct Golden {
    pub(crate) batch: usize,
    pub(crate) sequence: usize,
    pub(crate) vocab: usize,
    pub(crate) input_ids: Vec<i64>,
    pub(crate) attention_mask: Vec<i64>,
    pub(crate) position_ids: Vec<i64>,
    pub(crate) logits: Vec<f32>,
}

impl Golden {
    /// The only set of the file.
    pub(crate) fn read(path: &Path) -> Self {
        let mut sets = Self::read_sets(path);
        assert_eq!(sets.len(), 1, "{}", path.display());
        sets.remove(0)
    }

    /// Every set of the file, by name.
    pub(crate) fn read_sets(path: &Path) -> Vec<Self> {
        let bytes = plansmith_files::read(path).unwrap();
        let tensors: BTreeMap<_, _> = SafeTensors::deserialize(&bytes).unwrap().tensors().into_iter().collect();
        let sets = tensors.keys().filter_map(|name| name.strip_suffix(".logits"));
        sets.map(|set| Self::of_set(&tensors, set)).collect()
    }

    fn of_set(tensors: &BTreeMap<String, TensorView<'_>>, set: &str) -> Self {
        let ints = |name: &str| {
            let data = tensors[&format!("{set}.{name}")].data();
            data.chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
        };
        let logits = &tensors[&format!("{set}.logits")];
        let shape = logits.shape();
        Self {
            batch: shape[0],
            sequence: shape[1],
            vocab: shape[2],
            input_ids: ints("input_ids"),
            attention_mask: ints("attention_mask"),
            position_ids: ints("position_ids"),
            logits: logits.data().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect(),
        }
    }

    /// Positions `from..to` of `rows`, after `from` positions; columns before `skip` are left out altogether.
    pub(crate) fn batch(&self, rows: std::ops::Range<usize>, skip: usize, from: usize, to: usize) -> Batch {
        let columns = |data: &[i64], from: usize, to: usize| -> Vec<i64> {
            rows.clone().flat_map(|row| data[row * self.sequence + from..row * self.sequence + to].to_vec()).collect()
        };
        Batch {
            batch: rows.len(),
            sequence: to - from,
            input_ids: columns(&self.input_ids, from, to),
            attention_mask: columns(&self.attention_mask, skip, to),
            position_ids: columns(&self.position_ids, from, to),
        }
    }

    fn at(&self, row: usize, position: usize) -> &[f32] {
        let start = (row * self.sequence + position) * self.vocab;
        &self.logits[start..start + self.vocab]
    }

    /// Largest difference where the mask is 1, over the standard deviation of the golden logits there. `first` and `from` say which row and
    /// position the logits start with.
    pub(crate) fn max_rel(&self, logits: &Logits, first: usize, from: usize) -> f32 {
        assert_eq!(logits.vocab, self.vocab);
        let mut worst = 0.0f32;
        let mut compared = 0;
        for row in 0..logits.batch {
            for position in 0..logits.sequence {
                if self.attention_mask[(first + row) * self.sequence + from + position] == 0 {
                    continue;
                }
                compared += 1;
                for (found, wanted) in logits.at(row, position).iter().zip(self.at(first + row, from + position)) {
                    let difference = (found - wanted).abs();
                    // A NaN must not slip through `max`.
                    worst = if difference.is_nan() { f32::INFINITY } else { worst.max(difference) };
                }
            }
        }
        assert!(compared > 0 || logits.sequence == 1, "nothing was compared");
        worst / self.deviation()
    }

    fn deviation(&self) -> f32 {
        let attended = |index: &usize| self.attention_mask[index / self.vocab] != 0;
        let data: Vec<f32> = (0..self.logits.len()).filter(attended).map(|index| self.logits[index]).collect();
        let mean = data.iter().sum::<f32>() / data.len() as f32;
        (data.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / data.len() as f32).sqrt()
    }
}

/// The whole batch at once.
pub(crate) fn prefill(session: &mut dyn Session, golden: &Golden) -> f32 {
    session.reset(golden.batch).unwrap();
    let logits = session.step(&golden.batch(0..golden.batch, 0, 0, golden.sequence)).unwrap();
    assert_eq!((logits.batch, logits.sequence), (golden.batch, golden.sequence));
    assert_eq!(session.past(), golden.sequence);
    golden.max_rel(&logits, 0, 0)
}

/// A first part at once, then token by token through the cache.
pub(crate) fn decode(session: &mut dyn Session, golden: &Golden) -> f32 {
    session.reset(golden.batch).unwrap();
    let part = golden.sequence / 2;
    let logits = session.step(&golden.batch(0..golden.batch, 0, 0, part)).unwrap();
    let mut worst = golden.max_rel(&logits, 0, 0);
    for position in part..golden.sequence {
        let logits = session.step(&golden.batch(0..golden.batch, 0, position, position + 1)).unwrap();
        worst = worst.max(golden.max_rel(&logits, 0, position));
        assert_eq!(session.past(), position + 1);
    }
    worst
}

/// Each row by itself, without its padding.
pub(crate) fn alone(session: &mut dyn Session, golden: &Golden) -> f32 {
    let mut worst = 0.0f32;
    for row in 0..golden.batch {
        let mask = &golden.attention_mask[row * golden.sequence..(row + 1) * golden.sequence];
        let padding = mask.iter().take_while(|&&attend| attend == 0).count();
        if padding == golden.sequence {
            continue;
        }
        session.reset(1).unwrap();
        let logits = session.step(&golden.batch(row..row + 1, padding, padding, golden.sequence)).unwrap();
        worst = worst.max(golden.max_rel(&logits, row, padding));
    }
    worst
}

/// The three ways against `limit`, and that decoding left the cache that prefill leaves.
pub(crate) fn agrees(kind: RuntimeKind, graph: &str, limit: f32) {
    let path = fixture(graph);
    let golden = Golden::read(&path.with_file_name("golden.safetensors"));
    let mut session = open_file(kind, &path);
    for (way, found) in
        [("prefill", prefill(&mut *session, &golden)), ("decode", decode(&mut *session, &golden)), ("alone", alone(&mut *session, &golden))]
    {
        println!("{kind} {graph} {way}: max_rel {found:.1e}");
        assert!(found <= limit, "{kind} {graph} {way}: max_rel {found} > {limit}");
    }
}
