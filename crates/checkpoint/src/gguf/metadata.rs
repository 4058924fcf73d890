//! Typed access to metadata, with errors that name the key.

use indexmap::IndexMap;

use super::error::Problem;
use super::value::{Array, Value};

/// The metadata of one file.
#[derive(Clone, Copy)]
pub(super) struct Metadata<'a>(pub(super) &'a IndexMap<String, Value>);

type Result<T> = std::result::Result<T, Problem>;

impl<'a> Metadata<'a> {
    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key)
    }

    fn typed<T>(self, key: &str, expected: &'static str, read: impl FnOnce(&'a Value) -> Option<T>) -> Result<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(Problem::KeyType { key: key.to_owned(), found: value.to_string(), expected }),
        }
    }

    /// A whole number that is not negative.
    pub(super) fn count(self, key: &str) -> Result<Option<u64>> {
        self.typed(key, "a whole number that is not negative", |value| match value {
            Value::Unsigned(number) => Some(*number),
            Value::Signed(number) => u64::try_from(*number).ok(),
            _ => None,
        })
    }

    /// A whole number above zero and below 2^31, which must be there.
    pub(super) fn size(self, key: &str) -> Result<u64> {
        let size = self.count(key)?.ok_or_else(|| Problem::MissingKey(key.to_owned()))?;
        in_range(key, size)
    }

    /// As `size`, where it may be absent.
    pub(super) fn optional_size(self, key: &str) -> Result<Option<u64>> {
        self.count(key)?.map(|size| in_range(key, size)).transpose()
    }

    /// A finite float.
    pub(super) fn float(self, key: &str) -> Result<Option<f64>> {
        self.typed(key, "a finite float", |value| match value {
            Value::Float(number) => number.is_finite().then_some(*number),
            _ => None,
        })
    }

    pub(super) fn flag(self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "a bool", |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    pub(super) fn text(self, key: &str) -> Result<Option<&'a str>> {
        self.typed(key, "a text", |value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    pub(super) fn texts(self, key: &str) -> Result<Option<&'a [String]>> {
        self.typed(key, "an array of texts", |value| match value {
            Value::Array(Array::Text(texts)) => Some(texts.as_slice()),
            _ => None,
        })
    }

    pub(super) fn floats(self, key: &str) -> Result<Option<&'a [f64]>> {
        self.typed(key, "an array of floats", |value| match value {
            Value::Array(Array::Float(floats)) => Some(floats.as_slice()),
            _ => None,
        })
    }

    /// An array of whole numbers of either sign.
    pub(super) fn integers(self, key: &str) -> Result<Option<Vec<i64>>> {
        self.typed(key, "an array of whole numbers", |value| match value {
            Value::Array(Array::Signed(items)) => Some(items.clone()),
            Value::Array(Array::Unsigned(items)) => items.iter().map(|&item| i64::try_from(item).ok()).collect(),
            _ => None,
        })
    }
}

fn in_range(key: &str, size: u64) -> Result<u64> {
    if (1..1 << 31).contains(&size) {
        return Ok(size);
    }
    Err(Problem::Key { key: key.to_owned(), value: size.to_string(), reason: "it must be from 1 to 2^31 − 1".to_owned() })
}
