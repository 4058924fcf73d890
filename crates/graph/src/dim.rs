//! Symbolic dimensions: polynomials with whole coefficients over named symbols.

use std::fmt;
use std::ops::{Add, Mul, Sub};
use std::sync::Arc;

/// One dimension of a shape: a number, a name such as `batch_size`, or a sum of products of them.
///
/// Dimensions are kept in one canonical form, so that equal expressions are equal values:
///
/// ```
/// use plansmith_graph::Dim;
/// let (batch, sequence) = (Dim::symbol("batch_size"), Dim::symbol("sequence_length"));
/// assert_eq!(&batch * &sequence, &sequence * &batch);
/// assert_eq!((&batch * 576u64).to_string(), "576*batch_size");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Dim(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Known(i64),
    /// At least one term with symbols; sorted by symbols, no coefficient is zero.
    Sum(Arc<[Term]>),
}

/// `coefficient × symbols[0] × symbols[1] × …`, symbols sorted; none for the constant term.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Term {
    pub(crate) symbols: Box<[Arc<str>]>,
    pub(crate) coefficient: i64,
}

impl Dim {
    /// The dimension that a run of the graph gives a value to: `name` as it stands in the ONNX file.
    pub fn symbol(name: &str) -> Self {
        Self(Repr::Sum(Arc::new([Term { symbols: Box::new([name.into()]), coefficient: 1 }])))
    }

    /// The number, where no symbol is involved and it is not negative.
    pub fn known(&self) -> Option<u64> {
        self.constant().and_then(|value| u64::try_from(value).ok())
    }

    /// The number, where no symbol is involved: contents of index tensors may be negative.
    pub(crate) fn constant(&self) -> Option<i64> {
        match &self.0 {
            Repr::Known(value) => Some(*value),
            Repr::Sum(_) => None,
        }
    }

    /// The name, where this is one symbol and nothing else.
    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        match self.terms() {
            [Term { symbols, coefficient: 1 }] if symbols.len() == 1 => symbols.first(),
            _ => None,
        }
    }

    /// The symbolic terms and the constant one, canonical order; empty for a known number.
    pub(crate) fn terms(&self) -> &[Term] {
        match &self.0 {
            Repr::Known(_) => &[],
            Repr::Sum(terms) => terms,
        }
    }

    pub(crate) fn from_constant(value: i64) -> Self {
        Self(Repr::Known(value))
    }

    fn to_terms(&self) -> Vec<Term> {
        match &self.0 {
            Repr::Known(0) => Vec::new(),
            Repr::Known(value) => vec![Term { symbols: Box::new([]), coefficient: *value }],
            Repr::Sum(terms) => terms.to_vec(),
        }
    }

    fn from_terms(mut terms: Vec<Term>) -> Self {
        terms.sort_by(|a, b| a.symbols.cmp(&b.symbols));
        let mut sum: Vec<Term> = Vec::with_capacity(terms.len());
        for term in terms {
            match sum.last_mut() {
                Some(last) if last.symbols == term.symbols => last.coefficient = last.coefficient.saturating_add(term.coefficient),
                _ => sum.push(term),
            }
        }
        sum.retain(|term| term.coefficient != 0);
        match sum.as_slice() {
            [] => Self(Repr::Known(0)),
            [only] if only.symbols.is_empty() => Self(Repr::Known(only.coefficient)),
            _ => Self(Repr::Sum(sum.into())),
        }
    }

    fn combine(&self, other: &Self, sign: i64) -> Self {
        if let (Repr::Known(a), Repr::Known(b)) = (&self.0, &other.0) {
            return Self(Repr::Known(a.saturating_add(b.saturating_mul(sign))));
        }
        let mut terms = self.to_terms();
        terms.extend(other.to_terms().into_iter().map(|term| Term { coefficient: term.coefficient.saturating_mul(sign), ..term }));
        Self::from_terms(terms)
    }

    fn product(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (Repr::Known(a), Repr::Known(b)) => return Self(Repr::Known(a.saturating_mul(*b))),
            (Repr::Known(1), _) => return other.clone(),
            (_, Repr::Known(1)) => return self.clone(),
            _ => {}
        }
        let mut terms = Vec::new();
        for a in self.to_terms() {
            for b in other.to_terms() {
                let mut symbols: Vec<Arc<str>> = a.symbols.iter().chain(b.symbols.iter()).cloned().collect();
                symbols.sort();
                terms.push(Term { symbols: symbols.into(), coefficient: a.coefficient.saturating_mul(b.coefficient) });
            }
        }
        Self::from_terms(terms)
    }

    /// `self / divisor` where the divisor is a single product (`576*batch_size`) that divides every term; `None` otherwise.
    pub(crate) fn exact_quotient(&self, divisor: &Self) -> Option<Self> {
        let [by] = &divisor.to_terms()[..] else {
            return (self == divisor && self.constant() != Some(0)).then(|| Self::from(1u64));
        };
        let mut quotient = Vec::new();
        for term in self.to_terms() {
            let mut symbols = term.symbols.to_vec();
            for symbol in &by.symbols {
                symbols.remove(symbols.iter().position(|candidate| candidate == symbol)?);
            }
            if term.coefficient % by.coefficient != 0 {
                return None;
            }
            quotient.push(Term { symbols: symbols.into(), coefficient: term.coefficient / by.coefficient });
        }
        Some(Self::from_terms(quotient))
    }

    /// The same dimension with each symbol replaced by what `lookup` gives for it.
    pub(crate) fn substitute(&self, lookup: impl Fn(&str) -> Option<Dim>) -> Self {
        let terms = self.terms();
        if !terms.iter().flat_map(|term| term.symbols.iter()).any(|symbol| lookup(symbol).is_some()) {
            return self.clone();
        }
        let mut sum = Self::from_constant(0);
        for term in terms {
            let mut product = Self::from_constant(term.coefficient);
            for symbol in &term.symbols {
                product = &product * lookup(symbol).unwrap_or_else(|| Self::symbol(symbol));
            }
            sum = &sum + product;
        }
        sum
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Repr::Known(value) = self.0 {
            return write!(f, "{value}");
        }
        // Positive terms first, so that a difference reads `total - sequence`; the constant last.
        let mut terms: Vec<&Term> = self.terms().iter().collect();
        terms.sort_by_key(|term| (term.coefficient < 0, term.symbols.is_empty()));
        for (index, term) in terms.into_iter().enumerate() {
            match (index, term.coefficient < 0) {
                (0, true) => f.write_str("-")?,
                (0, false) => {}
                (_, true) => f.write_str(" - ")?,
                (_, false) => f.write_str(" + ")?,
            }
            let size = term.coefficient.unsigned_abs();
            if term.symbols.is_empty() {
                write!(f, "{size}")?;
            } else {
                if size != 1 {
                    write!(f, "{size}*")?;
                }
                f.write_str(&term.symbols.join("*"))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<u64> for Dim {
    fn from(value: u64) -> Self {
        // Beyond i64 no tensor exists; saturating keeps the comparison with any real size false.
        Self(Repr::Known(i64::try_from(value).unwrap_or(i64::MAX)))
    }
}

impl From<usize> for Dim {
    fn from(value: usize) -> Self {
        Self::from(value as u64)
    }
}

impl From<u32> for Dim {
    fn from(value: u32) -> Self {
        Self::from(u64::from(value))
    }
}

impl From<i32> for Dim {
    fn from(value: i32) -> Self {
        Self::from_constant(i64::from(value))
    }
}

impl From<&str> for Dim {
    fn from(name: &str) -> Self {
        Self::symbol(name)
    }
}

impl From<&Dim> for Dim {
    fn from(dim: &Dim) -> Self {
        dim.clone()
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, |$a:ident, $b:ident| $body:expr) => {
        impl<D: Into<Dim>> $trait<D> for &Dim {
            type Output = Dim;
            fn $method(self, other: D) -> Dim {
                let ($a, $b) = (self, &other.into());
                $body
            }
        }

        impl<D: Into<Dim>> $trait<D> for Dim {
            type Output = Dim;
            fn $method(self, other: D) -> Dim {
                (&self).$method(other)
            }
        }
    };
}

operator!(Add, add, |a, b| a.combine(b, 1));
operator!(Sub, sub, |a, b| a.combine(b, -1));
operator!(Mul, mul, |a, b| a.product(b));

/// A shape from numbers, names and [`Dim`]s: `dims![batch, 1, "sequence_length", 64]`.
#[macro_export]
macro_rules! dims {
    ($($dim:expr),* $(,)?) => { [$($crate::Dim::from($dim)),*] };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_expressions_are_equal_values() {
        let [batch, past, sequence] = dims!["batch", "past", "sequence"];
        let total = &past + &sequence;
        assert_eq!(&total - &sequence, past);
        assert_eq!(&total - &past - &sequence, Dim::from(0));
        assert_eq!((&batch * &total), &batch * &sequence + &batch * &past);
        assert_eq!((&batch * 2u64 * &sequence).exact_quotient(&(&sequence * 2u64)), Some(batch.clone()));
        assert_eq!((&batch * 3u64).exact_quotient(&Dim::from(2)), None);
        assert_eq!(total.exact_quotient(&past), None);
        assert_eq!(total.exact_quotient(&total), Some(Dim::from(1)));
    }

    #[test]
    fn differences_read_left_to_right() {
        let [past, sequence] = dims!["past", "sequence"];
        assert_eq!((&past - &sequence - 1).to_string(), "past - sequence - 1");
        assert_eq!((Dim::from(1) - &sequence).to_string(), "1 - sequence");
        assert_eq!((&past * &sequence * 2).to_string(), "2*past*sequence");
    }

    #[test]
    fn substitution_reaches_into_products() {
        let [batch, total] = dims!["batch", "total"];
        let expanded = (&batch * &total).substitute(|name| (name == "total").then(|| Dim::symbol("past") + "sequence"));
        assert_eq!(expanded.to_string(), "batch*past + batch*sequence");
    }
}
