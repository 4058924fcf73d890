//! Optimisation profiles: for which batch sizes and lengths a plan is built.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Span};

/// A named profile of a decoder with an explicit cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, try_from = "Unchecked")]
pub struct Profile {
    name: String,
    batch: Span,
    sequence: Span,
    past: Span,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    name: String,
    batch: Span,
    sequence: Span,
    past: Span,
}

impl TryFrom<Unchecked> for Profile {
    type Error = Error;

    fn try_from(raw: Unchecked) -> Result<Self, Error> {
        Self::new(&raw.name, raw.batch, raw.sequence, raw.past)
    }
}

impl Profile {
    /// A profile, checked: `batch` rows, `sequence` new tokens a row, `past` tokens a row in the cache.
    ///
    /// # Errors
    /// [`Error::ProfileName`]. [`Error::Profile`]: the minimum of `batch` or `sequence` is 0.
    pub fn new(name: &str, batch: Span, sequence: Span, past: Span) -> Result<Self, Error> {
        let refuse = |reason: String| Err(Error::Profile { profile: name.to_owned(), reason });
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            return Err(Error::ProfileName(name.to_owned()));
        }
        for (axis, span) in [("batch", batch), ("sequence", sequence)] {
            if span.min() == 0 {
                return refuse(format!("{axis}={span}: the minimum must be at least 1 (only `past` may be 0)"));
            }
        }
        Ok(Self { name: name.to_owned(), batch, sequence, past })
    }

    /// Its name; also the plan's file name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Rows.
    pub fn batch(&self) -> Span {
        self.batch
    }

    /// New tokens a row.
    pub fn sequence(&self) -> Span {
        self.sequence
    }

    /// Tokens a row in the cache before the step.
    pub fn past(&self) -> Span {
        self.past
    }

    /// Tokens a row in the cache after the step.
    pub fn total(&self) -> Span {
        self.past.plus(self.sequence)
    }

    /// Whether a step of this size can run in it.
    pub fn fits(&self, batch: u64, sequence: u64, past: u64) -> bool {
        self.batch.contains(batch) && self.sequence.contains(sequence) && self.past.contains(past)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, batch, sequence, past } = self;
        write!(f, "{name}:batch={batch},sequence={sequence},past={past}")
    }
}

impl FromStr for Profile {
    type Err = Error;

    /// Parses `NAME:batch=1,sequence=1..128..1024,past=0..512..2048`.
    ///
    /// # Errors
    /// [`Error::Profile`]: an axis is missing, unknown or given twice, or its numbers are refused.
    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = |reason: String| Error::Profile { profile: text.to_owned(), reason };
        let Some((name, axes)) = text.split_once(':') else {
            return Err(refuse("there is no `:` after the name".to_owned()));
        };
        let names = ["batch", "sequence", "past"];
        let mut spans = [None; 3];
        for axis in axes.split(',') {
            let Some((key, value)) = axis.split_once('=') else {
                return Err(refuse(format!("`{axis}` is not AXIS=RANGE")));
            };
            let Some(index) = names.iter().position(|name| *name == key) else {
                return Err(refuse(format!("unknown axis `{key}`; the axes are batch, sequence and past")));
            };
            let span = value.parse::<Span>().map_err(|reason| refuse(format!("{key}: {reason}")))?;
            if spans[index].replace(span).is_some() {
                return Err(refuse(format!("axis `{key}` is given twice")));
            }
        }
        match spans {
            [Some(batch), Some(sequence), Some(past)] => Self::new(name, batch, sequence, past),
            _ => {
                let missing = names.iter().zip(spans).filter(|(_, span)| span.is_none()).map(|(name, _)| *name);
                Err(refuse(format!("missing axis: {}", missing.collect::<Vec<_>>().join(", "))))
            }
        }
    }
}

/// Refuses no profile, and two of one name: names are files.
///
/// # Errors
/// [`Error::Profile`]: there is none; [`Error::SameProfileName`] of the second.
pub fn check_profile_names(profiles: &[Profile]) -> Result<(), Error> {
    if profiles.is_empty() {
        return Err(Error::Profile { profile: String::new(), reason: "a plan needs at least one profile".to_owned() });
    }
    for (index, profile) in profiles.iter().enumerate() {
        if profiles[..index].iter().any(|earlier| earlier.name == profile.name) {
            return Err(Error::SameProfileName(profile.to_string()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contracts_example_parses_and_prints() {
        let text = "main:batch=1,sequence=1..128..1024,past=0..512..2048";
        let profile: Profile = text.parse().unwrap();
        assert_eq!(profile.batch().to_array(), [1, 1, 1]);
        assert_eq!(profile.sequence().to_array(), [1, 128, 1024]);
        assert_eq!(profile.total().to_array(), [1, 640, 3072]);
        assert_eq!(profile.to_string(), text);
        assert!(profile.fits(1, 1024, 0) && !profile.fits(1, 1025, 0) && !profile.fits(2, 1, 0));
        let json = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&json).unwrap(), profile);
    }

    #[test]
    fn refusals_name_the_axis_and_the_reason() {
        let cases = [
            ("main", "no `:`"),
            ("a/b:batch=1,sequence=1,past=0", "file name"),
            ("a:batch=1,sequence=1", "missing axis: past"),
            ("a:batch=1,sequence=0..1..2,past=0", "sequence=0..1..2: the minimum must be at least 1"),
            ("a:batch=0,sequence=1,past=0", "batch=0"),
            ("a:batch=1,sequence=4..2..8,past=0", "minimum 4 is above the optimum 2"),
            ("a:batch=1,sequence=1..9..8,past=0", "optimum 9 is above the maximum 8"),
            ("a:batch=1,sequence=1..2,past=0", "has 2 numbers"),
            ("a:batch=1,sequence=-1,past=0", "`-1` is not"),
            ("a:batch=1,sequence=1,past=3000000000", "2147483647"),
            ("a:batch=1,batch=2,sequence=1,past=0", "given twice"),
            ("a:batch=1,seq=1,past=0", "unknown axis `seq`"),
            ("a:batch=1,sequence=99999999999999999999,past=0", "is not MIN..OPT..MAX"),
        ];
        for (text, expected) in cases {
            let error = text.parse::<Profile>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let twice = ["a:batch=1,sequence=1,past=0".parse().unwrap(), "a:batch=2,sequence=1,past=0".parse().unwrap()];
        assert!(check_profile_names(&twice).is_err());
    }
}
