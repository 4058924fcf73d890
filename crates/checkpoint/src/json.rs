//! JSON files beside the weights, read whole, with a limit, and with duplicate keys refused.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::Error;
use crate::foreign::Foreign;

/// Why a JSON file was refused.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum JsonError {
    #[error("it has {size} bytes; at most {limit} are read")]
    TooLong { size: u64, limit: u64 },
    #[error("it is {0}")]
    Foreign(Foreign),
    #[error(transparent)]
    Syntax(#[from] serde_json::Error),
}

/// Reads a regular file of at most `limit` bytes; a FIFO or a device could be waited for, or read, without end.
pub(crate) fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let metadata = plansmith_files::metadata(path)?;
    if !metadata.is_file() {
        return Err(Error::NotAFile(path.to_owned()));
    }
    let size = metadata.len();
    if size > limit {
        return Err(Error::Json { path: path.to_owned(), source: JsonError::TooLong { size, limit } });
    }
    Ok(plansmith_files::read(path)?)
}

/// Parses JSON text, refusing a key that is there twice in one object: `serde_json` would keep the last in silence.
///
/// # Errors
/// The text is not JSON, is recognisably something else, repeats a key, or does not fit `T`.
pub fn parse_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, JsonError> {
    let parse = || {
        let UniqueKeys = serde_json::from_slice(text)?;
        serde_json::from_slice(text)
    };
    parse().map_err(|error| match Foreign::sniff(text) {
        Some(foreign) if foreign != Foreign::Json => JsonError::Foreign(foreign),
        _ => JsonError::Syntax(error),
    })
}

/// Any JSON value; fails where an object repeats a key.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueKeys)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if keys.contains(&key) {
                return Err(A::Error::custom(format_args!("key `{key}` is there twice")));
            }
            map.next_value::<Self>()?;
            keys.insert(key);
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse_json::<serde_json::Value>(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_repeated_key_is_refused_at_any_depth() {
        assert_eq!(error(r#"{"a": [{"b": 1, "b": 1}]}"#), "key `b` is there twice at line 1 column 19");
        assert!(parse_json::<serde_json::Value>(br#"{"a": {"b": 1}, "b": [null, true, -1, 0.5, "x"]}"#).is_ok());
    }

    #[test]
    fn what_is_not_json_is_named() {
        assert_eq!(error("<!DOCTYPE html><p>404"), "it is a web page or XML document");
    }
}
