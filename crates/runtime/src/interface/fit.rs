//! A batch as a graph takes it.

use plansmith_tensor::{Batch, Cache, CacheLayer, HostTensor, Logits, SessionError, positions_from_mask};

use super::{Interface, Part, Role, listing};

/// A batch that fits a graph's fixed dimensions, and what of its result is wanted.
///
/// A graph for a fixed number of rows is given the last row again and again; one for a fixed number of tokens, where it keeps no cache,
/// tokens after those that are wanted, which these do not see.
#[derive(Debug)]
pub(crate) struct Fitted {
    pub(crate) batch: Batch,
    /// Tokens a row that are in the cache.
    pub(crate) past: usize,
    rows: usize,
    sequence: usize,
    /// What a static cache is fed besides.
    held: Option<Held>,
}

/// The mask over all slots of a static cache, and the slot that each row's first new token goes to.
#[derive(Debug)]
struct Held {
    mask: Vec<i64>,
    first: Vec<i64>,
}

impl Interface {
    /// Makes `batch`, for a session of `rows` rows that holds `past` tokens a row, fit the graph.
    pub(crate) fn fit(&self, batch: &Batch, rows: usize, past: usize) -> Result<Fitted, SessionError> {
        if batch.batch != rows {
            return Err(SessionError::Batch(format!("it has {} rows; the session was reset for {rows}", batch.batch)));
        }
        batch.check(past)?;
        let tokens = past + batch.sequence;
        if let Some(max_length) = self.slots.filter(|&slots| slots < tokens) {
            return Err(SessionError::Full { tokens, max_length });
        }
        self.expresses(batch, past).map_err(SessionError::Unsupported)?;
        let mut fitted = Fitted { batch: batch.clone(), past, rows, sequence: batch.sequence, held: None };
        if let Some(sequence) = self.fixed_sequence().filter(|&fixed| fixed > batch.sequence) {
            fitted.lengthen(sequence);
        }
        fitted.repeat_last_row(self.rows_held(rows));
        self.check(&fitted.batch, past).map_err(SessionError::Unsupported)?;
        fitted.held = self.slots.map(|slots| Held::of(&fitted.batch, past, slots));
        Ok(fitted)
    }

    /// Rows that the graph computes for `rows`.
    pub(crate) fn rows_held(&self, rows: usize) -> usize {
        self.fixed_rows().map_or(rows, |(_, fixed)| fixed.max(rows))
    }

    /// Whether the graph can run with `rows` rows.
    pub(crate) fn check_rows(&self, rows: usize) -> Result<(), SessionError> {
        match self.fixed_rows() {
            _ if rows == 0 => Err(SessionError::Batch("a session needs at least one row".to_owned())),
            Some((name, fixed)) if fixed < rows => {
                Err(SessionError::Unsupported(format!("{rows} rows were asked for; `{name}` has {fixed}, fixed in the graph")))
            }
            _ => Ok(()),
        }
    }

    /// The cache out of its ports' tensors, without rows that nobody asked for and slots beyond `past` tokens.
    pub(crate) fn layers(&self, tensors: Vec<HostTensor>, rows: usize, past: usize) -> Result<Cache, SessionError> {
        if self.cache.is_empty() {
            return Err(SessionError::Unsupported("it gives no keys and values".to_owned()));
        }
        let mut cache = Cache::new();
        let mut key = None;
        for (port, tensor) in self.cache.iter().zip(tensors) {
            let tensor = if self.slots.is_some() { first_columns(tensor, past) } else { tensor };
            match port.part {
                Part::Key => key = Some(first_rows(tensor, rows)),
                Part::Value => cache.extend(key.take().map(|key| CacheLayer { key, value: first_rows(tensor, rows) })),
                Part::Both => {
                    let shape = tensor.shape.get(1..).unwrap_or_default().to_vec();
                    let half = tensor.data.len() / 2;
                    let part = |data: &[f32]| first_rows(HostTensor { shape: shape.clone(), data: data.to_vec() }, rows);
                    cache.push(CacheLayer { key: part(&tensor.data[..half]), value: part(&tensor.data[half..]) });
                }
            }
        }
        Ok(cache)
    }

    /// The tensors of an empty cache.
    pub(crate) fn empty_cache(&self, rows: usize) -> Vec<HostTensor> {
        self.cache.iter().map(|port| HostTensor { shape: port.shape(rows, 0), data: Vec::new() }).collect()
    }

    /// Whether the graph has an input for all that `batch` says; else why not.
    fn expresses(&self, batch: &Batch, past: usize) -> Result<(), String> {
        let padded = batch.attention_mask.contains(&0);
        if padded && self.unpadded {
            return Err("rows with padding are not to be tried (--unpadded)".to_owned());
        }
        if padded && !self.has(Role::AttentionMask) {
            return Err("it takes no attention_mask, so that every token is attended".to_owned());
        }
        if past > 0 && !self.keeps_cache() {
            return Err("it takes no cache, so that it can only prefill".to_owned());
        }
        if !self.has(Role::PositionIds) {
            let counted = positions_from_mask(&batch.attention_mask, batch.batch, batch.sequence);
            let total = batch.total();
            let attended = |index: usize| batch.attention_mask[index / batch.sequence * total + past + index % batch.sequence] != 0;
            if (0..counted.len()).any(|index| attended(index) && counted[index] != batch.position_ids[index]) {
                return Err("it takes no position_ids, and these are no count of the attended tokens".to_owned());
            }
        }
        Ok(())
    }

    fn check(&self, batch: &Batch, past: usize) -> Result<(), String> {
        for (input, tensor) in self.inputs.iter().zip(&self.signature.inputs) {
            let shape = match input.role {
                Role::InputIds | Role::PositionIds => vec![batch.batch, batch.sequence],
                Role::AttentionMask => vec![batch.batch, self.columns(batch.total())],
                Role::CachePosition => vec![batch.batch],
                Role::UseCache => vec![1; tensor.shape.len().min(1)],
                Role::Cache(port) => self.cache[port].shape(batch.batch, self.columns(past)),
            };
            let fits = |(fixed, given): (&Result<u64, String>, &usize)| fixed.as_ref().map_or(true, |&fixed| fixed == *given as u64);
            if tensor.shape.len() != shape.len() || !tensor.shape.iter().zip(&shape).all(fits) {
                let (name, fixed) = (&input.name, listing::shape(&tensor.shape));
                return Err(format!("`{name}` would be {shape:?}; the graph takes {fixed}"));
            }
        }
        Ok(())
    }

    /// The number of rows, where the graph fixes it, and the input that does.
    fn fixed_rows(&self) -> Option<(&str, usize)> {
        let rows = |input: &super::Input, dims: &[Result<u64, String>]| {
            let axis = match input.role {
                Role::UseCache => return None,
                Role::Cache(port) => usize::from(self.cache[port].part == Part::Both),
                _ => 0,
            };
            dims.get(axis)?.as_ref().ok().and_then(|&fixed| usize::try_from(fixed).ok())
        };
        let mut inputs = self.inputs.iter().zip(&self.signature.inputs);
        inputs.find_map(|(input, tensor)| rows(input, &tensor.shape).map(|fixed| (input.name.as_str(), fixed)))
    }

    /// The number of tokens of a step, where the graph fixes it, gives logits for each and keeps no cache.
    fn fixed_sequence(&self) -> Option<usize> {
        let fixed = |role: Role| {
            let index = self.inputs.iter().position(|input| input.role == role)?;
            self.signature.inputs[index].shape.get(1)?.as_ref().ok().copied()
        };
        let sequence = fixed(Role::InputIds).filter(|_| !self.keeps_cache())?;
        let logits = self.signature.outputs.iter().find(|output| output.name == self.logits)?;
        let of_all = logits.shape.len() == 3 && (sequence == 1 || logits.shape[1] != Ok(1));
        usize::try_from(sequence).ok().filter(|_| of_all)
    }
}

impl Fitted {
    fn lengthen(&mut self, sequence: usize) {
        let batch = &mut self.batch;
        let more = sequence - batch.sequence;
        let longer = |values: &[i64], length: usize, more: &dyn Fn(i64) -> Vec<i64>| -> Vec<i64> {
            values.chunks_exact(length).flat_map(|row| [row, &more(row[length - 1])].concat()).collect()
        };
        let length = batch.sequence;
        batch.input_ids = longer(&batch.input_ids, length, &|last| vec![last; more]);
        batch.position_ids = longer(&batch.position_ids, length, &|last| (1..).map(|step| last + step).take(more).collect());
        batch.attention_mask = longer(&batch.attention_mask, batch.total(), &|_| vec![1; more]);
        batch.sequence = sequence;
    }

    fn repeat_last_row(&mut self, rows: usize) {
        let batch = &mut self.batch;
        for values in [&mut batch.input_ids, &mut batch.attention_mask, &mut batch.position_ids] {
            let length = values.len() / batch.batch;
            for _ in batch.batch..rows {
                values.extend_from_within(values.len() - length..);
            }
        }
        batch.batch = batch.batch.max(rows);
    }

    /// Logits out of what the runtime gave: of every position of the step, or of one a row.
    pub(crate) fn logits(&self, name: &str, shape: &[usize], data: Vec<f32>) -> Result<Logits, String> {
        let Batch { batch, sequence, .. } = self.batch;
        let (rows, given, vocab) = match *shape {
            [rows, given, vocab] => (rows, given, vocab),
            [rows, vocab] => (rows, 1, vocab),
            _ => (0, 0, 0),
        };
        if rows != batch || (given != sequence && given != 1) || data.len() != rows * given * vocab {
            return Err(format!("`{name}` is {shape:?}; [{batch}, {sequence} or 1, vocab] was expected"));
        }
        let kept = given.min(self.sequence);
        let mut logits = Logits { batch: self.rows, sequence: kept, vocab, data };
        if kept < given {
            logits.data = logits.data.chunks_exact(given * vocab).flat_map(|row| &row[..kept * vocab]).copied().collect();
        }
        logits.data.truncate(self.rows * kept * vocab);
        Ok(logits)
    }

    /// The elements of a token input and their shape; `None` for others.
    pub(crate) fn integers(&self, role: Role) -> Option<(Vec<usize>, &[i64])> {
        let Batch { batch, sequence, .. } = self.batch;
        match role {
            Role::InputIds => Some((vec![batch, sequence], &self.batch.input_ids)),
            Role::AttentionMask => {
                let mask = self.held.as_ref().map_or(&self.batch.attention_mask, |held| &held.mask);
                Some((vec![batch, mask.len() / batch], mask))
            }
            Role::PositionIds => Some((vec![batch, sequence], &self.batch.position_ids)),
            Role::CachePosition => self.held.as_ref().map(|held| (vec![batch], &*held.first)),
            Role::UseCache | Role::Cache(_) => None,
        }
    }
}

impl Held {
    fn of(batch: &Batch, past: usize, slots: usize) -> Self {
        let rows = batch.attention_mask.chunks_exact(batch.total());
        let mask = rows.flat_map(|row| row.iter().copied().chain(std::iter::repeat_n(0, slots - row.len()))).collect();
        Self { mask, first: vec![past as i64; batch.batch] }
    }
}

/// The first `columns` of a tensor `[.., slots, head_dim]`.
fn first_columns(tensor: HostTensor, columns: usize) -> HostTensor {
    let HostTensor { mut shape, data } = tensor;
    let Some(axis) = shape.len().checked_sub(2) else { return HostTensor { shape, data } };
    let (held, width) = (shape[axis], shape[axis + 1]);
    let data = data.chunks_exact((held * width).max(1)).flat_map(|head| &head[..columns.min(held) * width]).copied().collect();
    shape[axis] = columns.min(held);
    HostTensor { shape, data }
}

/// The first `rows` of a tensor whose first dimension is rows.
fn first_rows(mut tensor: HostTensor, rows: usize) -> HostTensor {
    if let Some(held) = tensor.shape.first_mut().filter(|held| **held > rows) {
        let each = tensor.data.len() / *held;
        *held = rows;
        tensor.data.truncate(rows * each);
    }
    tensor
}
