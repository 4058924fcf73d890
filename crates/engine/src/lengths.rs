//! How long a sequence a graph is made for, by its metadata.

use plansmith_onnx::ModelProto;
use serde::{Deserialize, Serialize};

use crate::{Error, Profile};

/// What a graph's metadata says of lengths; graphs by others say nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelLengths {
    /// Longest sequence that it was exported for, in tokens.
    pub max_length: Option<u64>,
    /// Positions that the model was made for (`max_position_embeddings`).
    pub max_positions: Option<u64>,
    /// Length beyond which every rotation changes.
    pub switch_length: Option<u64>,
}

impl ModelLengths {
    pub(crate) fn of(model: &ModelProto) -> Self {
        let length = |key: &str| {
            let found = model.metadata_props.iter().find(|entry| entry.key().strip_prefix("plansmith.") == Some(key));
            found.and_then(|entry| entry.value().parse().ok())
        };
        Self { max_length: length("max_length"), max_positions: length("max_positions"), switch_length: length("switch_length") }
    }

    /// The longest sequence, and where that is said.
    pub fn limit(&self) -> Option<(u64, &'static str)> {
        let exported = self.max_length.map(|length| (length, "`--max-length` of its export"));
        exported.or_else(|| self.max_positions.map(|length| (length, "the model's max_position_embeddings")))
    }

    /// Refuses a profile that reaches for sizes which no step may have. That the largest `sequence` and the largest `past` do not fit
    /// together is no fault: each is of use with less of the other.
    ///
    /// # Errors
    /// [`Error::Shapes`], with the sum in tokens and the limit.
    pub fn check(&self, profile: &Profile) -> Result<(), Error> {
        let Some((limit, origin)) = self.limit() else { return Ok(()) };
        let (sequence, past) = (profile.sequence(), profile.past());
        let shortest = past.max() + sequence.min();
        let reason = if sequence.max() + past.min() > limit {
            format!("sequence {} after past {} is {} tokens", sequence.max(), past.min(), sequence.max() + past.min())
        } else if shortest > limit {
            format!("past {} before sequence {} is {shortest} tokens", past.max(), sequence.min())
        } else {
            return Ok(());
        };
        Err(Error::Shapes { profile: profile.name().to_owned(), reason: format!("{reason}; the longest is {limit} ({origin})") })
    }

    /// Whether steps of `profile` lie on both sides of a length at which rotations change: a cache that was filled below is no use above.
    pub fn switches_within(&self, profile: &Profile) -> Option<u64> {
        self.switch_length.filter(|&switch| profile.total().min() <= switch && switch < profile.total().max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(lengths: ModelLengths, profile: &str) -> Option<String> {
        lengths.check(&profile.parse().unwrap()).err().map(|error| error.to_string())
    }

    #[test]
    fn what_no_step_can_use_is_refused_and_the_corner_beyond_is_not() {
        let lengths = ModelLengths { max_length: None, max_positions: Some(2048), switch_length: Some(512) };
        assert_eq!(refusal(lengths, "p:batch=1,sequence=1..1..2048,past=0..512..2047"), None);
        let error = refusal(lengths, "p:batch=1,sequence=1..1..2049,past=0").unwrap();
        assert!(
            error.ends_with("sequence 2049 after past 0 is 2049 tokens; the longest is 2048 (the model's max_position_embeddings)"),
            "{error}"
        );
        let error = refusal(lengths, "p:batch=1,sequence=1,past=0..512..2048").unwrap();
        assert!(error.contains("past 2048 before sequence 1 is 2049 tokens"), "{error}");
        let exported = ModelLengths { max_length: Some(1024), ..lengths };
        assert!(
            refusal(exported, "p:batch=1,sequence=1,past=0..512..1024").unwrap().contains("longest is 1024 (`--max-length` of its export)")
        );
        assert_eq!(refusal(ModelLengths::default(), "p:batch=1,sequence=1,past=0..512..99999"), None);
    }

    #[test]
    fn a_profile_on_both_sides_of_a_switch_is_told() {
        let lengths = ModelLengths { switch_length: Some(512), ..ModelLengths::default() };
        let within = |profile: &str| lengths.switches_within(&profile.parse().unwrap());
        assert_eq!(within("p:batch=1,sequence=1,past=0..100..512"), Some(512));
        assert_eq!(within("p:batch=1,sequence=1,past=0..100..511"), None);
        assert_eq!(within("p:batch=1,sequence=1,past=512..600..1000"), None);
    }
}
