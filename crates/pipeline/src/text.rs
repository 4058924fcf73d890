//! Strings of a pipeline file, with `${VAR}` and `${VAR:-default}` expanded.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, Visitor};

/// A string value after expansion.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(pub String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Expand;
        impl Visitor<'_> for Expand {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text, E> {
                expand(text, |name| std::env::var(name).ok()).map(Text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Expand).map_err(D::Error::custom)
    }
}

/// Replaces `${NAME}` and `${NAME:-default}` in `text`; `$${` stands for `${`.
pub(crate) fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        if rest[..start].ends_with('$') {
            expanded.push_str(&rest[..start - 1]);
            expanded.push_str("${");
            rest = &rest[start + 2..];
            continue;
        }
        expanded.push_str(&rest[..start]);
        let inner = &rest[start + 2..];
        let end = inner.find('}').ok_or_else(|| format!("`{text}` has `${{` without `}}`"))?;
        let (name, default) = match inner[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&inner[..end], None),
        };
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(format!("`{name}` in `{text}` is no variable name"));
        }
        match (lookup(name).filter(|value| !value.is_empty() || default.is_none()), default) {
            (Some(value), _) => expanded.push_str(&value),
            (None, Some(default)) => expanded.push_str(default),
            (None, None) => {
                return Err(format!("environment variable `{name}` in `{text}` is not set; `${{{name}:-default}}` gives a default"));
            }
        }
        rest = &inner[end + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn variables_expand_as_in_a_shell() {
        let lookup = |name: &str| match name {
            "HOME" => Some("/data".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        assert_eq!(expand("${HOME}/x", lookup).unwrap(), "/data/x");
        assert_eq!(expand("a${NONE:-b}c${EMPTY:-d}", lookup).unwrap(), "abcd");
        assert_eq!(expand("[${EMPTY}]", lookup).unwrap(), "[]");
        assert_eq!(expand("$${HOME} $HOME", lookup).unwrap(), "${HOME} $HOME");
        assert!(expand("${NONE}", lookup).unwrap_err().contains("`NONE`"));
        assert!(expand("${HOME", lookup).unwrap_err().contains("without"));
        assert!(expand("${A B}", lookup).unwrap_err().contains("no variable name"));
    }
}
