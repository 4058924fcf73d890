//! Two tensors of one place.

use plansmith_tensor::HostTensor;
use serde::{Deserialize, Serialize};

use super::Token;

/// Moments of the finite values of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Mean.
    pub mean: f64,
    /// (Population) standard deviation.
    pub std: f64,
    /// Largest magnitude.
    pub max: f64,
    /// Values that are NaN or infinite; the other figures pass over them.
    pub nonfinite: usize,
}

impl Stats {
    /// Of the attended tokens.
    pub fn of(values: &HostTensor, tokens: &[Token]) -> Self {
        let all = || rows(values, tokens).flatten();
        let finite = || all().filter(|value| value.is_finite()).map(|&value| f64::from(value));
        let count = finite().count().max(1) as f64;
        let mean = finite().sum::<f64>() / count;
        let variance = finite().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
        let max = finite().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        Self { mean, std: variance.sqrt(), max, nonfinite: all().filter(|value| !value.is_finite()).count() }
    }
}

/// How far two values of one place are apart, over the attended tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The largest of the tokens' errors: length of the difference over length of the source's vector. Infinite where the candidate holds
    /// a value that is not finite.
    pub error: f64,
    /// Largest absolute difference over the standard deviation of the source's values.
    pub max_rel: f64,
}

impl Difference {
    /// Compares `candidate`, any shape, with `source`, `[tokens, width]`.
    ///
    /// `None` where the candidate cannot be the same value: another width, or another number of tokens. One token a row is compared with the
    /// row's last attended token.
    pub fn between(source: &HostTensor, candidate: &HostTensor, tokens: &[Token]) -> Option<Self> {
        let pairs = pairs(source, candidate, tokens)?;
        let errors = token_errors(&pairs);
        let spread = Stats::of(source, tokens).std;
        let largest = pairs.iter().flat_map(|(s, c, _)| s.iter().zip(*c)).map(|(s, c)| f64::from((s - c).abs()));
        let max_abs = largest.fold(0.0, |largest: f64, value| if value > largest || value.is_nan() { value } else { largest });
        let error = errors.into_iter().fold(0.0, f64::max);
        Some(Self { error, max_rel: if spread > 0.0 { max_abs / spread } else { max_abs } })
    }
}

/// The vectors of source and candidate at one token.
pub(super) type Pair<'a> = (&'a [f32], &'a [f32], &'a Token);

/// Every token that both have and that is attended.
pub(super) fn pairs<'a>(source: &'a HostTensor, candidate: &'a HostTensor, tokens: &'a [Token]) -> Option<Vec<Pair<'a>>> {
    let width = *source.shape.last()?;
    if width == 0 || candidate.shape.last() != Some(&width) || source.data.len() != tokens.len() * width {
        return None;
    }
    let vectors = |values: &'a HostTensor| values.data.chunks_exact(width);
    let attended = tokens.iter().zip(vectors(source)).filter(|(token, _)| token.attended);
    if candidate.data.len() == source.data.len() {
        let given: Vec<&[f32]> = vectors(candidate).collect();
        let all = tokens.iter().zip(vectors(source)).zip(given).filter(|((token, _), _)| token.attended);
        return Some(all.map(|((token, source), given)| (source, given, token)).collect());
    }
    let rows = tokens.last()?.row + 1;
    if candidate.data.len() != rows * width {
        return None;
    }
    let last: Vec<_> = (0..rows).map(|row| attended.clone().rfind(|(token, _)| token.row == row)).collect();
    let found = last.into_iter().zip(vectors(candidate));
    Some(found.filter_map(|(last, given)| last.map(|(token, source)| (source, given, token))).collect())
}

/// Of each pair: length of the difference over length of the source's vector, or over a thousandth of the longest where that is more.
pub(super) fn token_errors(pairs: &[Pair<'_>]) -> Vec<f64> {
    let length = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let lengths: Vec<f64> = pairs.iter().map(|(source, ..)| length(&mut source.iter().map(|&value| f64::from(value)))).collect();
    let least = lengths.iter().fold(0.0, |largest: f64, &each| largest.max(each)) * 1e-3;
    let error = |((source, given, _), own): (&Pair<'_>, &f64)| {
        let off = length(&mut source.iter().zip(*given).map(|(&s, &c)| f64::from(s) - f64::from(c)));
        match own.max(least) {
            _ if !off.is_finite() => f64::INFINITY,
            0.0 => {
                if off == 0.0 {
                    0.0
                } else {
                    f64::INFINITY
                }
            }
            base => off / base,
        }
    };
    pairs.iter().zip(&lengths).map(error).collect()
}

/// The vectors of attended tokens; all of them where `values` has not one vector a token.
fn rows<'a>(values: &'a HostTensor, tokens: &'a [Token]) -> impl Iterator<Item = &'a [f32]> {
    let width = values.shape.last().copied().unwrap_or(1).max(1);
    let each = values.data.len() == tokens.len() * width;
    values.data.chunks_exact(width).enumerate().filter(move |(index, _)| !each || tokens[*index].attended).map(|(_, vector)| vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(row: usize, column: usize, attended: bool) -> Token {
        Token { row, column, position: column as i64, attended, padded_row: !attended }
    }

    fn tensor(shape: &[usize], data: &[f32]) -> HostTensor {
        HostTensor::new(shape.to_vec(), data.to_vec()).unwrap()
    }

    /// By hand: (3, 4) of length 5 against (3, 4.5), off by 0.5.
    #[test]
    fn the_error_is_that_of_the_worst_attended_token() {
        let source = tensor(&[3, 2], &[3.0, 4.0, 6.0, 8.0, 1.0, 1.0]);
        let given = tensor(&[1, 3, 2], &[3.0, 4.5, 6.0, 8.5, 9.0, 9.0]);
        let tokens = [token(0, 0, true), token(0, 1, true), token(0, 2, false)];
        let found = Difference::between(&source, &given, &tokens).unwrap();
        assert!((found.error - 0.1).abs() < 1e-12, "{found:?}");
        // Of 3, 4, 6, 8 the deviation is √3.6875.
        assert!((found.max_rel - 0.5 / 3.6875f64.sqrt()).abs() < 1e-9, "{found:?}");
        assert_eq!(Difference::between(&source, &tensor(&[2, 3], &[0.0; 6]), &tokens), None);
        assert_eq!(Difference::between(&source, &tensor(&[2, 2], &[0.0; 4]), &tokens), None);
        let nan = tensor(&[3, 2], &[3.0, f32::NAN, 6.0, 8.0, 1.0, 1.0]);
        assert_eq!(Difference::between(&source, &nan, &tokens).unwrap().error, f64::INFINITY);
        assert_eq!(Stats::of(&nan, &tokens), Stats { mean: 17.0 / 3.0, std: (38.0f64 / 9.0).sqrt(), max: 8.0, nonfinite: 1 });
    }

    #[test]
    fn one_vector_a_row_is_the_last_attended_one() {
        let source = tensor(&[4, 1], &[1.0, 2.0, 3.0, 4.0]);
        let tokens = [token(0, 0, true), token(0, 1, false), token(1, 0, true), token(1, 1, true)];
        let found = Difference::between(&source, &tensor(&[2, 1, 1], &[1.0, 4.0]), &tokens).unwrap();
        assert_eq!(found.error, 0.0);
    }
}
