//! One step's input.

use crate::SessionError;

/// The input of one step: `sequence` new tokens for each of `batch` rows, after what each row already holds.
///
/// All arrays are row-major int64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Number of rows.
    pub batch: usize,
    /// New tokens a row.
    pub sequence: usize,
    /// `[batch, sequence]`.
    pub input_ids: Vec<i64>,
    /// `[batch, past + sequence]`; 1 = attend. Any pattern.
    pub attention_mask: Vec<i64>,
    /// `[batch, sequence]`.
    pub position_ids: Vec<i64>,
}

impl Batch {
    /// A batch after `past` tokens with every position attended and positions counted from the first token.
    ///
    /// # Errors
    /// `input_ids` is not a whole, non-zero number of rows.
    pub fn unpadded(batch: usize, input_ids: Vec<i64>, past: usize) -> Result<Self, SessionError> {
        if batch == 0 || input_ids.is_empty() || !input_ids.len().is_multiple_of(batch) {
            return Err(SessionError::Batch(format!("{} ids do not make {batch} equal rows", input_ids.len())));
        }
        let sequence = input_ids.len() / batch;
        let total = past + sequence;
        let position_ids = (0..batch).flat_map(|_| (past..total).map(|position| position as i64)).collect();
        Ok(Self { batch, sequence, input_ids, attention_mask: vec![1; batch * total], position_ids })
    }

    /// Length of `attention_mask` a row: past tokens and new ones.
    pub fn total(&self) -> usize {
        self.attention_mask.len().checked_div(self.batch).unwrap_or(0)
    }

    /// Checks the three lengths against each other and against `past` tokens in the cache.
    ///
    /// # Errors
    /// Names the array whose length is off, and both lengths.
    pub fn check(&self, past: usize) -> Result<(), SessionError> {
        let new = self.batch * self.sequence;
        for (name, found, wanted) in [
            ("input_ids", self.input_ids.len(), new),
            ("position_ids", self.position_ids.len(), new),
            ("attention_mask", self.attention_mask.len(), self.batch * (past + self.sequence)),
        ] {
            if found != wanted || wanted == 0 {
                let (batch, sequence) = (self.batch, self.sequence);
                return Err(SessionError::Batch(format!(
                    "{name} has {found} elements; batch {batch}, sequence {sequence} and past {past} imply {wanted}"
                )));
            }
        }
        Ok(())
    }
}

/// Positions of the last `sequence` columns of a `[batch, total]` mask: the number of attended columns before each, and 1 where the mask is 0.
///
/// This is what transformers' `generate` gives a model: `cumsum(mask) - 1`, with 1 at masked columns.
pub fn positions_from_mask(mask: &[i64], batch: usize, sequence: usize) -> Vec<i64> {
    let total = mask.len().checked_div(batch).unwrap_or(0);
    let mut positions = Vec::with_capacity(batch * sequence);
    for row in mask.chunks_exact(total.max(1)) {
        let mut seen = 0;
        for (column, &attend) in row.iter().enumerate() {
            seen += i64::from(attend != 0);
            if column + sequence >= total {
                positions.push(if attend != 0 { seen - 1 } else { 1 });
            }
        }
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_attended_columns() {
        let mask = [0, 0, 1, 1, 1, 1, 1, 1];
        assert_eq!(positions_from_mask(&mask, 2, 4), [1, 1, 0, 1, 0, 1, 2, 3]);
        assert_eq!(positions_from_mask(&mask, 2, 1), [1, 3]);
    }

    #[test]
    fn a_batch_names_the_array_that_is_off() {
        let mut batch = Batch::unpadded(2, vec![1, 2, 3, 4], 3).unwrap();
        batch.check(3).unwrap();
        let error = batch.check(4).unwrap_err().to_string();
        assert!(error.contains("attention_mask has 10 elements") && error.contains("imply 12"), "{error}");
        batch.position_ids.pop();
        assert!(batch.check(3).unwrap_err().to_string().contains("position_ids has 3"));
    }
}
