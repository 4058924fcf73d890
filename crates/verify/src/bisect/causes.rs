//! Likely causes of a difference, computed from both sides' values.

use std::fmt;

use plansmith_tensor::HostTensor;

use super::difference::{Pair, pairs, token_errors};
use super::{RunKind, Token};

/// How the cache of the layer that differs compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSeen {
    /// Whether every attended key agrees.
    pub keys: bool,
    /// Whether the keys at position 0, where a rotation does nothing, agree.
    pub first_keys: bool,
    /// Whether every attended value agrees.
    pub values: bool,
}

/// Something that would make the difference that is seen.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// The candidate is zero wherever it differs.
    Zeros,
    /// NaN or infinity from this column on.
    NonFinite {
        /// Row and column of the first.
        row: usize,
        /// See above.
        column: usize,
    },
    /// The candidate is this many times the source.
    Factor(f64),
    /// Each token is a multiple of its own.
    FactorByToken,
    /// Each channel is a multiple of its own.
    FactorByChannel,
    /// Each channel is shifted by a constant of its own.
    OffsetByChannel,
    /// The width is cut into this many equal parts, and they are in another order.
    Permuted(usize),
    /// Neighbours are where halves should be, or the other way round.
    Interleaved,
    /// Each token holds what belongs to the token this many columns later.
    Shifted(i64),
    /// One row differs, the others agree.
    OneRow(usize),
    /// Only rows that hold padding differ.
    OnlyPaddedRows,
    /// All agrees before this column and differs from there on.
    FromColumn(usize),
    /// The first position agrees and errors grow with the position: in attention it sees nothing but itself.
    GrowsWithPosition,
    /// The same tokens agree in one prefill; they differ over a cache.
    OnlyOverCache(RunKind),
    /// Keys differ and values agree.
    Keys {
        /// Those at position 0 too.
        at_start: bool,
    },
    /// Values differ and keys agree.
    Values,
    /// Keys and values agree; what attention makes of them does not.
    Attends,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zeros => f.write_str("the candidate gives zeros"),
            Self::NonFinite { row, column } => write!(f, "NaN or infinity, first at row {row}, column {column}"),
            Self::Factor(factor) => write!(f, "a constant factor: the candidate is {factor:.6} times the source"),
            Self::FactorByToken => f.write_str("each token has a factor of its own: what a norm divides by"),
            Self::FactorByChannel => f.write_str("each channel has a factor of its own: a norm's gain"),
            Self::OffsetByChannel => f.write_str("each channel has a constant offset: a bias"),
            Self::Permuted(2) => f.write_str("the two halves are swapped"),
            Self::Permuted(parts) => write!(f, "{parts} equal parts of the width are in another order: heads or blocks"),
            Self::Interleaved => f.write_str("neighbouring pairs are where halves should be, or the reverse"),
            Self::Shifted(columns) => write!(f, "each token holds what belongs to the token {columns:+} columns away: an index is off"),
            Self::OneRow(row) => write!(f, "only row {row} differs"),
            Self::OnlyPaddedRows => f.write_str("only rows with padding differ: the mask, or positions counted over padding"),
            Self::FromColumn(column) => {
                write!(f, "columns before {column} agree and all from there on differ: a window, or a limit of length")
            }
            Self::GrowsWithPosition => {
                f.write_str("position 0 agrees, which sees itself alone, and errors grow with the position: rotation, scores or mask")
            }
            Self::OnlyOverCache(kind) => {
                write!(f, "the same tokens agree in one prefill and differ in {kind}: the cache, or the mask's offset by it")
            }
            Self::Keys { at_start: false } => f.write_str("keys differ except at position 0, values agree: the rotation"),
            Self::Keys { at_start: true } => f.write_str("keys differ and values agree: projection, norm or pairing of keys"),
            Self::Values => f.write_str("values differ and keys agree: their projection"),
            Self::Attends => f.write_str("keys and values agree: queries, scores, mask or the way out"),
        }
    }
}

/// The causes that fit, the most telling first. `limit` is the error up to which a token agrees.
pub fn explain(
    kind: RunKind,
    source: &HostTensor,
    candidate: &HostTensor,
    tokens: &[Token],
    cache: Option<CacheSeen>,
    limit: f64,
) -> Vec<Cause> {
    let (mut what, mut place) = (None, None);
    if let Some(pairs) = pairs(source, candidate, tokens).filter(|pairs| !pairs.is_empty()) {
        let scene = Scene { errors: token_errors(&pairs), pairs, limit };
        (what, place) = (scene.what(), scene.place());
    }
    let cached = match cache {
        Some(CacheSeen { keys: false, values: true, first_keys }) => Some(Cause::Keys { at_start: !first_keys }),
        Some(CacheSeen { keys: true, values: false, .. }) => Some(Cause::Values),
        Some(CacheSeen { keys: true, values: true, .. }) => Some(Cause::Attends),
        _ => None,
    };
    let over_cache = (kind >= RunKind::Chunked).then_some(Cause::OnlyOverCache(kind));
    what.into_iter().chain(over_cache).chain(cached).chain(place).collect()
}

/// Share of a difference that an explanation may leave unexplained.
const REST: f64 = 1e-2;
/// Tokens below which factors and offsets by channel fit by chance.
const FEW: usize = 4;

struct Scene<'a> {
    pairs: Vec<Pair<'a>>,
    errors: Vec<f64>,
    limit: f64,
}

type Vectors<'a> = dyn Iterator<Item = (f64, f64)> + 'a;

/// `Σ s·c / Σ s·s`.
fn fit(values: &mut Vectors<'_>) -> f64 {
    let (product, square) = values.fold((0.0, 0.0), |(product, square), (s, c)| (product + s * c, square + s * s));
    if square > 0.0 { product / square } else { 0.0 }
}

impl Scene<'_> {
    /// Every value pair of a token.
    fn of_token(&self, token: usize) -> impl Iterator<Item = (f64, f64)> {
        let (source, given, _) = self.pairs[token];
        source.iter().zip(given).map(|(&s, &c)| (f64::from(s), f64::from(c)))
    }

    fn of_channel(&self, channel: usize) -> impl Iterator<Item = (f64, f64)> {
        self.pairs.iter().map(move |(source, given, _)| (f64::from(source[channel]), f64::from(given[channel])))
    }

    fn width(&self) -> usize {
        self.pairs[0].0.len()
    }

    /// Squared length of the difference.
    fn difference(&self) -> f64 {
        (0..self.pairs.len()).flat_map(|token| self.of_token(token)).map(|(s, c)| (c - s).powi(2)).sum()
    }

    /// Whether `left`, the squared length of what an explanation leaves of the difference, is little.
    fn explains(&self, left: f64) -> bool {
        left <= REST * REST * self.difference()
    }

    /// What was done to the values.
    fn what(&self) -> Option<Cause> {
        if let Some((_, _, token)) = self.pairs.iter().find(|(_, given, _)| given.iter().any(|value| !value.is_finite())) {
            return Some(Cause::NonFinite { row: token.row, column: token.column });
        }
        let mut bad = self.pairs.iter().zip(&self.errors).filter(|(_, error)| **error > self.limit).peekable();
        if bad.peek().is_some() && bad.all(|((_, given, _), _)| given.iter().all(|&value| value == 0.0)) {
            return Some(Cause::Zeros);
        }
        self.factor().or_else(|| self.order()).or_else(|| self.shifted()).or_else(|| self.offset())
    }

    fn factor(&self) -> Option<Cause> {
        let tokens = || 0..self.pairs.len();
        let left = |factor: f64, values: &mut Vectors<'_>| values.map(|(s, c)| (c - factor * s).powi(2)).sum::<f64>();
        let whole = fit(&mut tokens().flat_map(|token| self.of_token(token)));
        if self.explains(left(whole, &mut tokens().flat_map(|token| self.of_token(token)))) {
            return Some(Cause::Factor(whole));
        }
        if self.width() >= FEW && self.explains(tokens().map(|token| left(fit(&mut self.of_token(token)), &mut self.of_token(token))).sum())
        {
            return Some(Cause::FactorByToken);
        }
        let channels = (0..self.width()).map(|channel| left(fit(&mut self.of_channel(channel)), &mut self.of_channel(channel))).sum();
        (self.pairs.len() >= FEW && self.explains(channels)).then_some(Cause::FactorByChannel)
    }

    fn offset(&self) -> Option<Cause> {
        let count = self.pairs.len() as f64;
        let left = |channel: usize| {
            let mean = self.of_channel(channel).map(|(s, c)| c - s).sum::<f64>() / count;
            self.of_channel(channel).map(|(s, c)| (c - s - mean).powi(2)).sum::<f64>()
        };
        (self.pairs.len() >= FEW && self.explains((0..self.width()).map(left).sum())).then_some(Cause::OffsetByChannel)
    }

    /// Whether the candidate holds the source's channels in another order: `to(i)` is where channel `i` went.
    fn reordered(&self, to: impl Fn(usize) -> usize) -> bool {
        let off = |(source, given, _): &Pair<'_>| {
            source.iter().enumerate().map(|(index, &value)| (f64::from(value) - f64::from(given[to(index)])).powi(2)).sum::<f64>()
        };
        self.explains(self.pairs.iter().map(off).sum())
    }

    fn order(&self) -> Option<Cause> {
        let width = self.width();
        if width.is_multiple_of(2) && width > 2 {
            let half = width / 2;
            let apart = |index: usize| index % 2 * half + index / 2;
            let together = |index: usize| index % half * 2 + index / half;
            if self.reordered(apart) || self.reordered(together) {
                return Some(Cause::Interleaved);
            }
        }
        (2..=width.min(256)).filter(|parts| width.is_multiple_of(*parts)).find(|&parts| self.permuted(parts)).map(Cause::Permuted)
    }

    /// Whether each of `parts` equal parts of the source is some part of the candidate.
    fn permuted(&self, parts: usize) -> bool {
        let size = self.width() / parts;
        let part = |values: &[f32], index: usize| values[index * size..(index + 1) * size].to_vec();
        let same = |from: usize, to: usize| {
            self.pairs.iter().all(|(source, given, _)| {
                let (source, given) = (part(source, from), part(given, to));
                let length: f64 = source.iter().map(|&value| f64::from(value).powi(2)).sum();
                let off: f64 = source.iter().zip(&given).map(|(&s, &c)| f64::from(s - c).powi(2)).sum();
                off <= (self.limit * self.limit).max(1e-8) * length
            })
        };
        let mut to = Vec::new();
        for from in 0..parts {
            match (0..parts).find(|&index| !to.contains(&index) && same(from, index)) {
                Some(index) => to.push(index),
                None => return false,
            }
        }
        to.iter().enumerate().any(|(from, &index)| from != index)
    }

    fn shifted(&self) -> Option<Cause> {
        let neighbour = |index: usize, by: i64| {
            let (_, _, token) = self.pairs[index];
            let wanted = token.column as i64 + by;
            self.pairs.iter().find(|(_, _, other)| other.row == token.row && other.column as i64 == wanted)
        };
        let fits = |by: i64| {
            let both: Vec<_> = (0..self.pairs.len()).filter_map(|index| neighbour(index, by).map(|other| (index, other.0))).collect();
            let off = |&(index, other): &(usize, &[f32])| -> f64 {
                other.iter().zip(self.pairs[index].1).map(|(&s, &c)| f64::from(s - c).powi(2)).sum()
            };
            both.len() + 1 >= self.pairs.len().max(FEW) && self.explains(both.iter().map(off).sum())
        };
        [1, -1].into_iter().find(|&by| fits(by)).map(Cause::Shifted)
    }

    /// Which tokens it was done to.
    fn place(&self) -> Option<Cause> {
        let bad = |index: &usize| self.errors[*index] > self.limit;
        let (bad, good): (Vec<usize>, Vec<usize>) = (0..self.pairs.len()).partition(bad);
        let token = |index: usize| self.pairs[index].2;
        if bad.is_empty() || good.is_empty() {
            return None;
        }
        let rows = |indices: &[usize]| indices.iter().map(|&index| token(index).row).collect::<std::collections::BTreeSet<_>>();
        let (bad_rows, good_rows) = (rows(&bad), rows(&good));
        let padded = |index: &usize| token(*index).padded_row;
        // Where other rows with padding agree, padding alone is not the cause.
        let one = bad_rows.first().filter(|row| bad_rows.len() == 1 && good_rows.iter().any(|other| other != *row));
        let others = one.is_some_and(|row| good.iter().any(|index| padded(index) && token(*index).row != *row));
        if !others && bad.iter().all(padded) && !good.iter().all(padded) {
            return Some(Cause::OnlyPaddedRows);
        }
        if let Some(&row) = one {
            return Some(Cause::OneRow(row));
        }
        let first = bad.iter().map(|&index| token(index).column).min()?;
        let later = |index: usize| token(index).column >= first && bad_rows.contains(&token(index).row);
        if first > 1 && !good.iter().any(|&index| later(index)) {
            return Some(Cause::FromColumn(first));
        }
        self.grows().then_some(Cause::GrowsWithPosition)
    }

    /// Whether position 0 agrees and the last third of the positions is off by more than twice the first third.
    fn grows(&self) -> bool {
        let mut by_position: Vec<(i64, f64)> =
            self.pairs.iter().map(|(.., token)| token.position).zip(self.errors.iter().copied()).collect();
        by_position.sort_by_key(|each| each.0);
        let third = by_position.len() / 3;
        let mean = |part: &[(i64, f64)]| part.iter().map(|each| each.1).sum::<f64>() / part.len().max(1) as f64;
        let start_agrees = by_position.first().is_some_and(|&(position, error)| position == 0 && error <= self.limit);
        third >= 2 && start_agrees && mean(&by_position[by_position.len() - third..]) > 1.5 * mean(&by_position[..third])
    }
}

#[cfg(test)]
mod tests;
