//! Checkpoints of testdata and the logits that transformers computed for them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plansmith_checkpoint::Checkpoint;
use plansmith_families::{Options, Tensors, load};
use plansmith_reference::{Reference, Rounding};
use plansmith_tensor::{Batch, Logits, Session};
use safetensors::tensor::{SafeTensors, TensorView};

pub(crate) fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

/// The reference of the checkpoint in `dir`, read as the command reads it.
pub(crate) fn open(dir: &Path) -> Reference {
    open_rounded(dir, Rounding::default())
}

/// As [`open`], rounded.
pub(crate) fn open_rounded(dir: &Path, rounding: Rounding) -> Reference {
    let checkpoint = Checkpoint::open(dir).unwrap();
    let config: serde_json::Value = checkpoint.read_json("config.json").unwrap();
    let tensors: Tensors<'_> = checkpoint.tensors().values().map(|tensor| (tensor.name.as_str(), tensor.shape.as_slice())).collect();
    let loaded = load(&config, &tensors, &Options::default()).unwrap();
    Reference::open_rounded(loaded.spec, &checkpoint, rounding).unwrap()
}

/// One prompt set of a golden file.
pub(crate) struct Golden {
    pub(crate) name: String,
    pub(crate) batch: Batch,
    pub(crate) logits: Logits,
}

/// Every prompt set of a golden file, by name.
pub(crate) fn goldens(path: &Path) -> Vec<Golden> {
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let by_name: BTreeMap<String, TensorView<'_>> = file.tensors().into_iter().collect();
    let sets = by_name.keys().filter_map(|key| key.strip_suffix(".input_ids"));
    sets.map(|name| {
        let integers = |part: &str| by_name.get(&format!("{name}.{part}")).map(|view| i64s(view.data()));
        let (ids, logits) = (&by_name[&format!("{name}.input_ids")], &by_name[&format!("{name}.logits")]);
        let [rows, sequence] = *ids.shape() else { panic!("{name}.input_ids is {:?}", ids.shape()) };
        assert_eq!(logits.shape()[..2], [rows, sequence]);
        let mut batch = Batch::unpadded(rows, i64s(ids.data()), 0).unwrap();
        batch.attention_mask = integers("attention_mask").unwrap_or(batch.attention_mask);
        batch.position_ids = integers("position_ids").unwrap_or(batch.position_ids);
        let data = logits.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        Golden { name: name.to_owned(), batch, logits: Logits { batch: rows, sequence, vocab: logits.shape()[2], data } }
    })
    .collect()
}

fn i64s(bytes: &[u8]) -> Vec<i64> {
    bytes.as_chunks::<8>().0.iter().map(|&bytes| i64::from_le_bytes(bytes)).collect()
}

impl Golden {
    /// The largest difference at attended positions over the standard deviation of all attended logits.
    pub(crate) fn max_rel(&self, found: impl Fn(usize, usize) -> Vec<f32>) -> f64 {
        let attended = || {
            let all = (0..self.batch.batch).flat_map(|row| (0..self.batch.sequence).map(move |position| (row, position)));
            all.filter(|&(row, position)| self.attends(row, position))
        };
        let wanted: Vec<f64> =
            attended().flat_map(|(row, position)| self.logits.at(row, position)).map(|&logit| f64::from(logit)).collect();
        let mean = wanted.iter().sum::<f64>() / wanted.len() as f64;
        let deviation = (wanted.iter().map(|logit| (logit - mean).powi(2)).sum::<f64>() / wanted.len() as f64).sqrt();
        let found: Vec<f32> = attended().flat_map(|(row, position)| found(row, position)).collect();
        assert_eq!(found.len(), wanted.len());
        // A NaN must not hide in a maximum.
        let differences = found.iter().zip(&wanted).map(|(&found, wanted)| (f64::from(found) - wanted).abs() / deviation);
        differences.fold(0.0, |worst, each| if each.is_nan() || each > worst { each } else { worst })
    }

    pub(crate) fn attends(&self, row: usize, position: usize) -> bool {
        self.batch.attention_mask[row * self.batch.sequence + position] != 0
    }

    /// Columns `first..end` of every row as a step.
    fn step(&self, first: usize, end: usize) -> Batch {
        let cut = |all: &[i64], from: usize| {
            let row = |row: &[i64]| row[from..end].to_vec();
            all.chunks_exact(self.batch.sequence).flat_map(row).collect()
        };
        Batch {
            batch: self.batch.batch,
            sequence: end - first,
            input_ids: cut(&self.batch.input_ids, first),
            attention_mask: cut(&self.batch.attention_mask, 0),
            position_ids: cut(&self.batch.position_ids, first),
        }
    }

    pub(crate) fn prefill(&self, session: &mut dyn Session) -> f64 {
        session.reset(self.batch.batch).unwrap();
        let logits = session.step(&self.batch).unwrap();
        self.max_rel(|row, position| logits.at(row, position).to_vec())
    }

    /// The first third at once, the next five tokens at once, the rest token by token; but never over `switch`, beyond which keys in
    /// the cache are not those of the longer sequence.
    pub(crate) fn decode(&self, session: &mut dyn Session, switch: Option<u64>) -> f64 {
        session.reset(self.batch.batch).unwrap();
        let sequence = self.batch.sequence;
        let switches =
            |columns: usize| switch.is_some_and(|length| self.step(0, columns).position_ids.iter().any(|&at| at as u64 >= length));
        let first = if switches(sequence) { (1..=sequence).find(|&columns| switches(columns)).unwrap() } else { sequence / 3 };
        let mut cuts = vec![0, first];
        cuts.extend(first + 5..=sequence);
        if cuts.last() != Some(&sequence) {
            cuts.push(sequence);
        }
        let steps: Vec<(usize, Logits)> = cuts.windows(2).map(|cut| (cut[0], session.step(&self.step(cut[0], cut[1])).unwrap())).collect();
        assert_eq!(session.past(), sequence);
        self.max_rel(|row, position| {
            let (first, logits) = steps.iter().rev().find(|(first, _)| *first <= position).unwrap();
            logits.at(row, position - first).to_vec()
        })
    }

    /// Every row by itself, without its padding.
    pub(crate) fn alone(&self, session: &mut dyn Session) -> f64 {
        let rows: Vec<(Vec<usize>, Logits)> = (0..self.batch.batch)
            .map(|row| {
                let kept: Vec<usize> = (0..self.batch.sequence).filter(|&position| self.attends(row, position)).collect();
                let take = |all: &[i64]| kept.iter().map(|position| all[row * self.batch.sequence + position]).collect::<Vec<_>>();
                let mut batch = Batch::unpadded(1, take(&self.batch.input_ids), 0).unwrap();
                batch.position_ids = take(&self.batch.position_ids);
                session.reset(1).unwrap();
                let logits = session.step(&batch).unwrap();
                (kept, logits)
            })
            .collect();
        self.max_rel(|row, position| {
            let (kept, logits) = &rows[row];
            logits.at(0, kept.iter().position(|&column| column == position).unwrap()).to_vec()
        })
    }
}
