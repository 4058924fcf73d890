//! From token ids to the residual stream.

use plansmith_families::{Embedding, Positions};
use plansmith_tensor::{Batch, SessionError};

use crate::linear::{add, linear, scale};
use crate::norm::norm_in_place;
use crate::weights::{Matrix, Weights};

/// `[tokens, hidden_size]` of a batch that [`check`] accepts.
pub(crate) fn embed(weights: &Weights, embedding: &Embedding, batch: &Batch) -> Vec<f32> {
    let mut x = rows(&weights.matrix(&embedding.weight), batch.input_ids.iter().map(|&id| id as usize));
    if embedding.scale != 1.0 {
        scale(&mut x, embedding.scale);
        weights.keep(&mut x);
    }
    if let Some(project) = &embedding.project {
        x = linear(weights, project, &x);
    }
    match &embedding.positions {
        None => {}
        Some(Positions::Learned { weight, offset }) => {
            let indices = batch.position_ids.iter().map(|&position| position as usize + *offset as usize);
            add(&mut x, &rows(&weights.matrix(weight), indices));
            weights.keep(&mut x);
        }
        Some(Positions::Sinusoidal { frequencies, offset }) => {
            add_waves(&mut x, frequencies, *offset as i64, &batch.position_ids);
            weights.keep(&mut x);
        }
    }
    if let Some(norm) = &embedding.norm {
        norm_in_place(weights, norm, &mut x);
    }
    x
}

/// Whether every token has a row, and every position where positions are learned.
pub(crate) fn check(embedding: &Embedding, vocab: u64, batch: &Batch) -> Result<(), SessionError> {
    let outside = |index: i64, offset: u64, count: u64| u64::try_from(index).map_or(true, |index| index.saturating_add(offset) >= count);
    if let Some(id) = batch.input_ids.iter().find(|&&id| outside(id, 0, vocab)) {
        return Err(SessionError::Batch(format!("token id {id} is outside the vocabulary of {vocab}")));
    }
    if let Some(Positions::Learned { weight, offset }) = &embedding.positions {
        let rows = weight.shape.first().copied().unwrap_or(0);
        if let Some(position) = batch.position_ids.iter().find(|&&position| outside(position, *offset, rows)) {
            let last = rows.saturating_sub(*offset).saturating_sub(1);
            return Err(SessionError::Batch(format!(
                "position {position} has no learned embedding; `{}` of {rows} rows ends with position {last}",
                weight.name
            )));
        }
    }
    Ok(())
}

fn rows(table: &Matrix<'_>, indices: impl ExactSizeIterator<Item = usize>) -> Vec<f32> {
    let mut all = Vec::with_capacity(indices.len() * table.column_count());
    for index in indices {
        table.with_rows(index..index + 1, |row| all.extend_from_slice(row));
    }
    all
}

/// Sines, then cosines, of angles rounded to fp32; both taken in fp64, as for rotations.
fn add_waves(x: &mut [f32], frequencies: &[f32], offset: i64, positions: &[i64]) {
    let width = x.len() / positions.len();
    for (token, &position) in x.chunks_exact_mut(width).zip(positions) {
        let (sines, cosines) = token.split_at_mut(frequencies.len());
        for ((sine, cosine), frequency) in sines.iter_mut().zip(cosines).zip(frequencies) {
            let (of_sine, of_cosine) = f64::from(position.saturating_add(offset) as f32 * frequency).sin_cos();
            *sine += of_sine as f32;
            *cosine += of_cosine as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, linear, stored, weight};
    use plansmith_families::{Gain, Norm, NormKind};

    fn table(scale: f64, positions: Option<Positions>) -> Embedding {
        Embedding { weight: weight("table", &[2, 2]), scale, project: None, positions, norm: None }
    }

    fn batch(ids: &[i64], positions: &[i64]) -> Batch {
        Batch { position_ids: positions.to_vec(), ..Batch::unpadded(1, ids.to_vec(), 0).unwrap() }
    }

    #[test]
    fn rows_are_scaled_projected_shifted_and_normed() {
        let weights = stored(&[
            ("table", &[2, 2], &[1.0, 2.0, 3.0, 4.0]),
            ("project", &[2, 2], &[0.0, 1.0, 1.0, 0.0]),
            ("positions", &[3, 2], &[0.5, 0.0, 10.0, 20.0, 100.0, 300.0]),
        ]);
        let learned = || Some(Positions::Learned { weight: weight("positions", &[3, 2]), offset: 1 });
        let swapped = Embedding { project: Some(linear("project", 2, 2)), ..table(10.0, learned()) };
        assert_eq!(embed(&weights, &swapped, &batch(&[1, 0], &[0, 1])), [50.0, 50.0, 120.0, 310.0]);
        let norm = Some(Norm { kind: NormKind::Layer, width: 2, gain: Gain::One, bias: None, eps: 0.0 });
        assert_eq!(embed(&weights, &Embedding { norm, ..table(1.0, learned()) }, &batch(&[1], &[1])), [-1.0, 1.0]);
    }

    /// Wanted: row 3 of `XGLMSinusoidalPositionalEmbedding(8, 6)` of transformers 5.24.
    #[test]
    fn sines_come_before_cosines() {
        let mut x = [0.0; 6];
        add_waves(&mut x, &[1.0, 0.01, 0.0001], 2, &[1]);
        assert_close(&x, &[0.141_12, 0.029_995_5, 0.000_299_999_96, -0.989_992_5, 0.999_550_05, 0.999_999_94]);
    }

    #[test]
    fn ids_and_positions_without_a_row_are_refused() {
        let learned = table(1.0, Some(Positions::Learned { weight: weight("wpe", &[10, 2]), offset: 2 }));
        let refusal = |batch: Batch| check(&learned, 2, &batch).unwrap_err().to_string();
        check(&learned, 2, &batch(&[0, 1], &[0, 7])).unwrap();
        assert_eq!(refusal(batch(&[2], &[0])), "the batch does not fit: token id 2 is outside the vocabulary of 2");
        let no_row = |position| {
            format!("the batch does not fit: position {position} has no learned embedding; `wpe` of 10 rows ends with position 7")
        };
        assert_eq!(refusal(batch(&[0, 1], &[7, 8])), no_row(8));
        assert_eq!(refusal(batch(&[0], &[-1])), no_row(-1));
        check(&table(1.0, None), 2, &batch(&[0], &[1 << 40])).unwrap();
    }
}
