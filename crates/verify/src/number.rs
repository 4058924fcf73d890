//! Numbers as verdict.json has them.

/// To four significant digits: what reports show, and short in JSON.
pub(crate) fn short(value: f64) -> f64 {
    if value.is_finite() { format!("{value:.3e}").parse().unwrap_or(value) } else { value }
}

/// A number that may be infinite, as `null`, which JSON has a way of writing.
pub(crate) mod unbounded {
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { serializer.serialize_f64(*value) } else { serializer.serialize_none() }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
    }

    /// What is not in a file that knows no limit of this kind.
    pub(crate) fn none() -> f64 {
        f64::INFINITY
    }
}
