//! The token sequences that a model is checked on.

mod builtin;
mod jsonl;

use plansmith_files::{Digest, Hasher};
use plansmith_tensor::{Batch, positions_from_mask};

use crate::Error;

/// A batch of rows of equal length, as one prefill would take them.
///
/// All arrays are row-major `[batch, sequence]` int64. Columns whose mask is 0 are padding: their logits are not compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSet {
    name: String,
    batch: usize,
    sequence: usize,
    input_ids: Vec<i64>,
    attention_mask: Vec<i64>,
    position_ids: Vec<i64>,
    positions: Option<Vec<usize>>,
    switch_length: Option<usize>,
}

impl PromptSet {
    /// A set of `batch` rows over `input_ids`. Without a mask every column is attended; without `position_ids` they are counted from
    /// the mask ([`positions_from_mask`]). `positions` are the columns of interest (all, when absent).
    ///
    /// # Errors
    /// Arrays of different lengths, a negative id or position, a mask value other than 0 and 1, a column out of range or named twice, or
    /// nothing left to compare. Names the array.
    pub fn new(
        name: &str,
        batch: usize,
        input_ids: Vec<i64>,
        attention_mask: Option<Vec<i64>>,
        position_ids: Option<Vec<i64>>,
        positions: Option<Vec<usize>>,
    ) -> Result<Self, Error> {
        let set = name.to_owned();
        let refuse = |problem: String| Err(Error::Prompt { set: set.clone(), problem });
        if name.is_empty() {
            return refuse("the name is empty".to_owned());
        }
        if batch == 0 || input_ids.is_empty() || !input_ids.len().is_multiple_of(batch) {
            return refuse(format!("input_ids: {} ids do not make {batch} equal rows of at least one", input_ids.len()));
        }
        let sequence = input_ids.len() / batch;
        let attention_mask = attention_mask.unwrap_or_else(|| vec![1; input_ids.len()]);
        if attention_mask.len() != input_ids.len() {
            return refuse(format!("attention_mask has {} elements, input_ids {}", attention_mask.len(), input_ids.len()));
        }
        let position_ids = position_ids.unwrap_or_else(|| positions_from_mask(&attention_mask, batch, sequence));
        if position_ids.len() != input_ids.len() {
            return refuse(format!("position_ids has {} elements, input_ids {}", position_ids.len(), input_ids.len()));
        }
        for (array, values, highest) in
            [("input_ids", &input_ids, i64::MAX), ("attention_mask", &attention_mask, 1), ("position_ids", &position_ids, i64::MAX)]
        {
            if let Some(index) = values.iter().position(|&value| value < 0 || value > highest) {
                let (row, column) = (index / sequence, index % sequence);
                return refuse(format!("{array} is {} at row {row}, column {column}", values[index]));
            }
        }
        let mut wanted = vec![positions.is_none(); sequence];
        for &column in positions.iter().flatten() {
            match wanted.get_mut(column) {
                None => return refuse(format!("positions names column {column}; the sequence has {sequence}")),
                Some(true) => return refuse(format!("positions names column {column} twice")),
                Some(slot) => *slot = true,
            }
        }
        if !attention_mask.iter().enumerate().any(|(index, &attend)| attend == 1 && wanted[index % sequence]) {
            return refuse("nothing is left to compare: the attention_mask is 0 at every column of interest".to_owned());
        }
        Ok(Self { name: set, batch, sequence, input_ids, attention_mask, position_ids, positions, switch_length: None })
    }

    /// For a source that computes otherwise once the largest position of a step, plus 1, is above `length` (its rotations change there):
    /// what was cached below is then not what it would have cached above, so checks keep each run on one side.
    pub(crate) fn switching_at(self, length: Option<usize>) -> Self {
        Self { switch_length: length, ..self }
    }

    pub(crate) fn switch_length(&self) -> Option<usize> {
        self.switch_length
    }

    /// The fewest columns, `least` or more, of a first step that lies on the side of the switch where the whole set lies. `None` where
    /// that leaves nothing to decode.
    pub(crate) fn first_step(&self, least: usize) -> Option<usize> {
        let beyond = |columns: usize| {
            let rows = self.position_ids.chunks_exact(self.sequence);
            let last = rows.flat_map(|row| &row[..columns]).max().copied().unwrap_or(0);
            self.switch_length.is_some_and(|length| last >= length as i64)
        };
        let side = beyond(self.sequence);
        (least..self.sequence).find(|&columns| beyond(columns) == side)
    }

    /// Whether `part`, made of columns of this set, lies on its side of the switch.
    pub(crate) fn shares_side(&self, part: &Self) -> bool {
        let beyond = |set: &Self| {
            let last = set.position_ids.iter().max().copied().unwrap_or(0);
            self.switch_length.is_some_and(|length| last >= length as i64)
        };
        beyond(self) == beyond(part)
    }

    /// Its name, unique among the sets of a run.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of rows.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Columns a row, padding included.
    pub fn sequence(&self) -> usize {
        self.sequence
    }

    /// `[batch, sequence]`.
    pub fn input_ids(&self) -> &[i64] {
        &self.input_ids
    }

    /// `[batch, sequence]`, 0 or 1.
    pub fn attention_mask(&self) -> &[i64] {
        &self.attention_mask
    }

    /// `[batch, sequence]`; any value where the mask is 0.
    pub fn position_ids(&self) -> &[i64] {
        &self.position_ids
    }

    /// The columns whose logits are compared, where these are not all.
    pub fn positions(&self) -> Option<&[usize]> {
        self.positions.as_deref()
    }

    /// Number of columns whose logits are compared or stored, padding included.
    pub fn stored(&self) -> usize {
        self.positions.as_ref().map_or(self.sequence, Vec::len)
    }

    /// The column of the `index`-th stored position.
    pub(crate) fn column(&self, index: usize) -> usize {
        self.positions.as_ref().map_or(index, |positions| positions[index])
    }

    /// Whether `row` attends `column`.
    pub(crate) fn attends(&self, row: usize, column: usize) -> bool {
        self.attention_mask[row * self.sequence + column] == 1
    }

    /// The token that follows `column` in `row`, where the row goes on there.
    pub(crate) fn next(&self, row: usize, column: usize) -> Option<usize> {
        let follows = column + 1 < self.sequence && self.attends(row, column + 1);
        if follows { usize::try_from(self.input_ids[row * self.sequence + column + 1]).ok() } else { None }
    }

    /// Whether any column is padding.
    pub(crate) fn is_padded(&self) -> bool {
        self.attention_mask.contains(&0)
    }

    /// The step that appends columns `from..to` to a cache that holds columns `0..from`.
    pub(crate) fn slice(&self, from: usize, to: usize) -> Batch {
        let take = |values: &[i64], from: usize| -> Vec<i64> {
            values.chunks_exact(self.sequence).flat_map(|row| row[from..to].iter().copied()).collect()
        };
        Batch {
            batch: self.batch,
            sequence: to - from,
            input_ids: take(&self.input_ids, from),
            attention_mask: take(&self.attention_mask, 0),
            position_ids: take(&self.position_ids, from),
        }
    }

    fn hash_into(&self, hasher: &mut Hasher) {
        hasher.field(self.name.as_bytes());
        let positions: Option<Vec<i64>> = self.positions.as_ref().map(|list| list.iter().map(|&column| column as i64).collect());
        let all = [Some(&self.input_ids), Some(&self.attention_mask), Some(&self.position_ids), positions.as_ref()];
        hasher.update(&(self.batch as u64).to_le_bytes());
        for array in all {
            let bytes: Vec<u8> = array.into_iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
            hasher.field(&bytes);
        }
    }
}

/// The prompt sets of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompts {
    sets: Vec<PromptSet>,
    limit: Option<usize>,
}

impl Prompts {
    /// A run over `sets`.
    ///
    /// # Errors
    /// No set, or two of one name.
    pub fn new(sets: Vec<PromptSet>) -> Result<Self, Error> {
        let refuse = |set: &str, problem: &str| Err(Error::Prompt { set: set.to_owned(), problem: problem.to_owned() });
        for (index, set) in sets.iter().enumerate() {
            if sets[..index].iter().any(|other| other.name == set.name) {
                return refuse(&set.name, "the name is used twice");
            }
        }
        if sets.is_empty() { refuse("(none)", "there is no prompt") } else { Ok(Self { sets, limit: None }) }
    }

    /// The same sets for a source whose rotations change at this total length.
    #[must_use]
    pub fn switching_at(self, length: Option<usize>) -> Self {
        Self { sets: self.sets.into_iter().map(|set| set.switching_at(length)).collect(), ..self }
    }

    /// The same sets for a model of so many positions: it may go on from one of them up to there.
    #[must_use]
    pub(crate) fn limited_to(self, positions: usize) -> Self {
        Self { limit: Some(positions), ..self }
    }

    /// The same sets and nothing that depends on the model: no source goes on from any of them.
    #[must_use]
    pub fn fixed(self) -> Self {
        Self { limit: None, ..self }
    }

    /// Positions that the model was made for, where that is known.
    pub fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// The total length at which the source's rotations change.
    pub(crate) fn switch_length(&self) -> Option<usize> {
        self.sets.first().and_then(PromptSet::switch_length)
    }

    /// In the order they run.
    pub fn sets(&self) -> &[PromptSet] {
        &self.sets
    }

    /// SHA-256 over names, ids, masks and positions: two runs of one hash saw the same input.
    pub fn hash(&self) -> Digest {
        let mut hasher = Hasher::default();
        self.sets.iter().for_each(|set| set.hash_into(&mut hasher));
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(result: Result<PromptSet, Error>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_set_names_the_array_that_is_off() {
        let new = |ids: &[i64], mask: Option<&[i64]>, positions: Option<&[usize]>| {
            PromptSet::new("p", 2, ids.to_vec(), mask.map(<[_]>::to_vec), None, positions.map(<[_]>::to_vec))
        };
        assert_eq!(problem(new(&[1, 2, 3], None, None)), "prompt set `p`: input_ids: 3 ids do not make 2 equal rows of at least one");
        assert_eq!(problem(new(&[1, 2, 3, -4], None, None)), "prompt set `p`: input_ids is -4 at row 1, column 1");
        assert_eq!(problem(new(&[1, 2], Some(&[1, 2]), None)), "prompt set `p`: attention_mask is 2 at row 1, column 0");
        assert_eq!(problem(new(&[1, 2], Some(&[1]), None)), "prompt set `p`: attention_mask has 1 elements, input_ids 2");
        assert_eq!(problem(new(&[1, 2], None, Some(&[1]))), "prompt set `p`: positions names column 1; the sequence has 1");
        assert_eq!(problem(new(&[1, 2], None, Some(&[0, 0]))), "prompt set `p`: positions names column 0 twice");
        assert!(problem(new(&[1, 2], Some(&[0, 0]), None)).contains("nothing is left to compare"));
    }

    #[test]
    fn a_slice_carries_the_mask_of_the_past() {
        let set = PromptSet::new("p", 2, vec![9, 9, 5, 6, 1, 2, 3, 4], Some(vec![0, 0, 1, 1, 1, 1, 1, 1]), None, None).unwrap();
        let step = set.slice(2, 3);
        assert_eq!(step.input_ids, [5, 3]);
        assert_eq!(step.attention_mask, [0, 0, 1, 1, 1, 1]);
        assert_eq!(step.position_ids, [0, 2]);
        step.check(2).unwrap();
    }

    #[test]
    fn the_hash_changes_with_every_array() {
        let hash = |name: &str, ids: Vec<i64>, mask: Option<Vec<i64>>, positions: Option<Vec<usize>>| {
            Prompts::new(vec![PromptSet::new(name, 1, ids, mask, None, positions).unwrap()]).unwrap().hash()
        };
        let base = hash("p", vec![1, 2], None, None);
        assert_eq!(base, hash("p", vec![1, 2], Some(vec![1, 1]), None));
        assert_ne!(base, hash("q", vec![1, 2], None, None));
        assert_ne!(base, hash("p", vec![1, 3], None, None));
        assert_ne!(base, hash("p", vec![1, 2], Some(vec![0, 1]), None));
        assert_ne!(base, hash("p", vec![1, 2], None, Some(vec![1])));
    }
}
