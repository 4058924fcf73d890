//! What a metadata key can hold.

use std::fmt;

/// A metadata value. Integers and floats are widened, which loses nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// An unsigned integer of any width.
    Unsigned(u64),
    /// A signed integer of any width.
    Signed(i64),
    /// A float of either width.
    Float(f64),
    /// A bool.
    Bool(bool),
    /// UTF-8 text.
    Text(String),
    /// Several of one kind.
    Array(Array),
}

/// The elements of an array, all of one kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    /// Unsigned integers.
    Unsigned(Vec<u64>),
    /// Signed integers.
    Signed(Vec<i64>),
    /// Floats.
    Float(Vec<f64>),
    /// Bools.
    Bool(Vec<bool>),
    /// Texts.
    Text(Vec<String>),
}

impl Array {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Unsigned(items) => items.len(),
            Self::Signed(items) => items.len(),
            Self::Float(items) => items.len(),
            Self::Bool(items) => items.len(),
            Self::Text(items) => items.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Unsigned(_) => "unsigned integers",
            Self::Signed(_) => "signed integers",
            Self::Float(_) => "floats",
            Self::Bool(_) => "bools",
            Self::Text(_) => "texts",
        }
    }
}

/// As errors and `inspect` show it: on one line, long text cut, arrays counted.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 60;
        match self {
            Self::Unsigned(number) => write!(f, "{number}"),
            Self::Signed(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::Bool(flag) => write!(f, "{flag}"),
            Self::Text(text) => match text.char_indices().nth(SHOWN) {
                None => write!(f, "{text:?}"),
                Some((end, _)) => write!(f, "{:?}… ({} bytes)", &text[..end], text.len()),
            },
            Self::Array(array) => write!(f, "an array of {} {}", array.len(), array.kind()),
        }
    }
}
