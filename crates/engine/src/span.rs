//! The minimum, optimum and maximum of one axis.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// `min..opt..max` of an axis, in elements; `min ≤ opt ≤ max ≤ 2³¹ − 1` (TensorRT's limit).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "[u64; 3]", try_from = "[u64; 3]")]
pub struct Span {
    min: u64,
    opt: u64,
    max: u64,
}

const LIMIT: u64 = i32::MAX as u64;

impl Span {
    /// A span, checked.
    ///
    /// # Errors
    /// Says which two numbers are in the wrong order, or that the maximum is beyond TensorRT's limit.
    pub fn new(min: u64, opt: u64, max: u64) -> Result<Self, String> {
        if min > opt {
            return Err(format!("minimum {min} is above the optimum {opt}"));
        }
        if opt > max {
            return Err(format!("optimum {opt} is above the maximum {max}"));
        }
        if max > LIMIT {
            return Err(format!("maximum {max} is above {LIMIT}, TensorRT's limit for one axis"));
        }
        Ok(Self { min, opt, max })
    }

    /// One number for all three.
    ///
    /// # Errors
    /// It is beyond TensorRT's limit.
    pub fn fixed(value: u64) -> Result<Self, String> {
        Self::new(value, value, value)
    }

    /// The smallest.
    pub fn min(self) -> u64 {
        self.min
    }

    /// The one that kernels are chosen for.
    pub fn opt(self) -> u64 {
        self.opt
    }

    /// The largest.
    pub fn max(self) -> u64 {
        self.max
    }

    /// Whether it is more than one number.
    pub fn is_open(self) -> bool {
        self.min < self.max
    }

    /// Whether `value` lies in it.
    pub fn contains(self, value: u64) -> bool {
        (self.min..=self.max).contains(&value)
    }

    /// Of the sum of two axes; may be beyond the limit, which [`crate::input_shapes`] checks.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { min: self.min + other.min, opt: self.opt + other.opt, max: self.max + other.max }
    }

    /// `[min, opt, max]`.
    pub fn to_array(self) -> [u64; 3] {
        [self.min, self.opt, self.max]
    }
}

impl From<Span> for [u64; 3] {
    fn from(span: Span) -> Self {
        span.to_array()
    }
}

impl TryFrom<[u64; 3]> for Span {
    type Error = String;

    fn try_from([min, opt, max]: [u64; 3]) -> Result<Self, String> {
        Self::new(min, opt, max)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { min, opt, max } = self;
        if min == max { write!(f, "{min}") } else { write!(f, "{min}..{opt}..{max}") }
    }
}

impl FromStr for Span {
    type Err = String;

    /// Parses `1..128..1024`, or `1` for all three.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Vec<u64> = text
            .split("..")
            .map(|part| part.parse().map_err(|_| format!("`{text}` is not MIN..OPT..MAX or one number")))
            .collect::<Result<_, _>>()?;
        match numbers[..] {
            [value] => Self::fixed(value),
            [min, opt, max] => Self::new(min, opt, max),
            _ => Err(format!("`{text}` has {} numbers; MIN..OPT..MAX has three, or give one number", numbers.len())),
        }
    }
}
