//! A small causal model with a cache, right or with one seeded fault, to see what the checks notice.

use plansmith_tensor::{Batch, Cache, CacheLayer, HostTensor, Logits, Session, SessionError, Signature};

/// Entries of the toy's vocabulary.
pub(crate) const VOCAB: usize = 11;
const WIDTH: usize = 4;

/// What is wrong with a toy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    None,
    /// The newest row of the past is not attended.
    CacheOffByOne,
    /// Padding is attended.
    IgnoresPadding,
    /// In a cached step positions count columns, not attended tokens.
    PositionFromPast,
    /// `reset` leaves one row of the last prompt behind, which is attended.
    StaleCache,
    /// A cached step gives NaN in one entry of the last row.
    NanInDecode,
    /// Rows come back in the wrong order.
    RowsSwapped,
    /// Logits times this.
    Factor(f32),
    /// The cache that is handed out has its rows shifted; attention is right.
    CacheRowsShifted,
    /// Attends what comes later.
    NotCausal,
    /// In a step of several tokens after a first one, attends what comes later.
    ChunkSeesAhead,
    /// Logits times 1.001 where there is more than one row.
    DependsOnBatch,
    /// A row that attends nothing is NaN.
    NanWhereMasked,
    /// Logits times 1.001 at the last position of a step of more than one.
    LastOff,
    /// Takes one row only. No fault, but a limit.
    OneRow,
    /// Takes no padding before a token. No fault, but a limit.
    NoLeftPadding,
    /// Fails at the second step.
    Fails,
}

/// One head of attention over token vectors that are rotated by their position, and a linear read-out.
pub(crate) struct Toy {
    fault: Fault,
    last_only: bool,
    signature: Signature,
    batch: usize,
    /// A row's keys and values, `[past][WIDTH]`.
    keys: Vec<Vec<[f32; WIDTH]>>,
    values: Vec<Vec<[f32; WIDTH]>>,
    stale: Option<([f32; WIDTH], [f32; WIDTH])>,
}

impl Toy {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault, last_only: false, signature: Signature::default(), batch: 0, keys: Vec::new(), values: Vec::new(), stale: None }
    }

    /// One that gives the logits of each row's last attended position only.
    pub(crate) fn last_only(fault: Fault) -> Self {
        Self { last_only: true, ..Self::new(fault) }
    }
}

fn embed(token: i64, salt: f32) -> [f32; WIDTH] {
    std::array::from_fn(|index| ((token as f32 + 1.0) * (index as f32 + 1.3) * salt).sin())
}

fn rotate(vector: [f32; WIDTH], position: i64) -> [f32; WIDTH] {
    let mut out = vector;
    for (pair, speed) in [(0, 0.7), (2, 0.11)] {
        let (sin, cos) = (position as f32 * speed).sin_cos();
        out[pair] = vector[pair] * cos - vector[pair + 1] * sin;
        out[pair + 1] = vector[pair] * sin + vector[pair + 1] * cos;
    }
    out
}

fn dot(a: &[f32; WIDTH], b: &[f32; WIDTH]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Session for Toy {
    fn runtime(&self) -> &'static str {
        "toy"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn past(&self) -> usize {
        self.keys.first().map_or(0, Vec::len)
    }

    fn reset(&mut self, batch: usize) -> Result<(), SessionError> {
        if self.fault == Fault::OneRow && batch > 1 {
            return Err(SessionError::Batch(format!("{batch} rows for one")));
        }
        if self.fault == Fault::StaleCache {
            let last = |rows: &[Vec<[f32; WIDTH]>]| rows.first().and_then(|row| row.last()).copied();
            self.stale = last(&self.keys).zip(last(&self.values));
        }
        self.keys = vec![Vec::new(); batch];
        self.values = vec![Vec::new(); batch];
        self.batch = batch;
        Ok(())
    }

    fn step(&mut self, step: &Batch) -> Result<Logits, SessionError> {
        let past = self.past();
        step.check(past)?;
        if self.fault == Fault::Fails && past > 0 {
            return Err(SessionError::Runtime { runtime: "toy", message: "out of toys".to_owned() });
        }
        let (sequence, total) = (step.sequence, past + step.sequence);
        if self.fault == Fault::NoLeftPadding
            && step.attention_mask.chunks_exact(total).any(|row| row.is_sorted() && row[0] < row[total - 1])
        {
            return Err(SessionError::Unsupported("there is no position_ids to tell left padding by".to_owned()));
        }
        let mut data = Vec::new();
        for row in 0..step.batch {
            let tokens = &step.input_ids[row * sequence..][..sequence];
            let mask = &step.attention_mask[row * total..][..total];
            let position = |index: usize| match self.fault {
                Fault::PositionFromPast if past > 0 => (past + index) as i64,
                _ => step.position_ids[row * sequence + index],
            };
            for (index, &token) in tokens.iter().enumerate() {
                self.keys[row].push(rotate(embed(token, 0.9), position(index)));
                self.values[row].push(embed(token, 1.7));
            }
            for (index, &token) in tokens.iter().enumerate() {
                let query = rotate(embed(token, 0.4), position(index));
                let sees_ahead = self.fault == Fault::NotCausal || self.fault == Fault::ChunkSeesAhead && past > 0;
                let end = if sees_ahead { total } else { past + index + 1 };
                let (mut sum, mut out) = (0.0, [0.0; WIDTH]);
                let mut attend = |key: &[f32; WIDTH], value: &[f32; WIDTH]| {
                    let weight = dot(&query, key).exp();
                    sum += weight;
                    out.iter_mut().zip(value).for_each(|(out, value)| *out += weight * value);
                };
                self.stale.iter().for_each(|(key, value)| attend(key, value));
                for (column, &attended) in mask.iter().enumerate().take(end) {
                    let skipped = self.fault == Fault::CacheOffByOne && past > 0 && column + 1 == past;
                    if skipped || attended == 0 && self.fault != Fault::IgnoresPadding {
                        continue;
                    }
                    attend(&self.keys[row][column], &self.values[row][column]);
                }
                let own = embed(token, 0.2);
                let is_nan = self.fault == Fault::NanWhereMasked;
                let hidden: [f32; WIDTH] =
                    std::array::from_fn(|index| own[index] + if sum > 0.0 || is_nan { out[index] / sum } else { 0.0 });
                data.extend((0..VOCAB).map(|entry| 3.0 * dot(&hidden, &embed(entry as i64, 2.3))));
            }
        }
        if let Fault::Factor(factor) = self.fault {
            data.iter_mut().for_each(|logit| *logit *= factor);
        }
        if self.fault == Fault::DependsOnBatch && step.batch > 1 {
            data.iter_mut().for_each(|logit| *logit *= 1.001);
        }
        if self.fault == Fault::LastOff && sequence > 1 {
            for row in data.chunks_exact_mut(sequence * VOCAB) {
                row[(sequence - 1) * VOCAB..].iter_mut().for_each(|logit| *logit *= 1.001);
            }
        }
        if self.fault == Fault::NanInDecode && past > 0 {
            data.last_mut().into_iter().for_each(|logit| *logit = f32::NAN);
        }
        if self.fault == Fault::RowsSwapped {
            data.rotate_left(sequence * VOCAB);
        }
        if !self.last_only || sequence == 1 {
            return Ok(Logits { batch: step.batch, sequence, vocab: VOCAB, data });
        }
        let last = |row: usize| (0..sequence).rev().find(|index| step.attention_mask[row * total + past + index] == 1).unwrap_or(0);
        let data = (0..step.batch).flat_map(|row| data[(row * sequence + last(row)) * VOCAB..][..VOCAB].to_vec()).collect();
        Ok(Logits { batch: step.batch, sequence: 1, vocab: VOCAB, data })
    }

    fn cache(&self) -> Result<Cache, SessionError> {
        let tensor = |rows: &[Vec<[f32; WIDTH]>]| {
            let mut data: Vec<f32> = rows.iter().flatten().flatten().copied().collect();
            if self.fault == Fault::CacheRowsShifted {
                data.rotate_left(WIDTH);
            }
            HostTensor::new(vec![self.batch, 1, self.past(), WIDTH], data).unwrap()
        };
        Ok(vec![CacheLayer { key: tensor(&self.keys), value: tensor(&self.values) }])
    }
}
