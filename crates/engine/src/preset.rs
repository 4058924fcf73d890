//! Profiles for common uses, fitted to a model's length.

use std::fmt;

use crate::{Error, ModelLengths, Profile, Span};

/// A profile that needs no numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// One conversation: prompts and single tokens, up to 4096 tokens together.
    Chat,
    /// Many rows at once: up to 32, each up to 2048 tokens.
    Batch,
    /// One long prompt, up to 32768 tokens; made for half of it at once.
    LongPrompt,
}

impl Preset {
    /// All.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Batch, Self::LongPrompt];

    /// As flags and pipeline files spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Batch => "batch",
            Self::LongPrompt => "long-prompt",
        }
    }

    /// The one of this name.
    pub fn of_name(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == text)
    }

    /// As a profile called `name`, no longer than the model's sequences.
    ///
    /// # Errors
    /// [`Error::ProfileName`].
    pub fn profile(self, name: &str, lengths: &ModelLengths) -> Result<Profile, Error> {
        let most = match self {
            Self::Chat => 4096,
            Self::Batch => 2048,
            Self::LongPrompt => 32768,
        };
        // Where nobody says how long the model's sequences are, no preset takes more than the shortest of common models.
        let length = lengths.limit().map_or(4096, |(limit, _)| limit).clamp(1, most);
        let span = |min, opt: u64, max: u64| Span::new(min, opt, max).map_err(|reason| Error::Profile { profile: name.to_owned(), reason });
        let past = span(0, if self == Self::LongPrompt { 0 } else { length / 4 }, length - 1)?;
        let (batch, sequence) = match self {
            Self::Chat => (span(1, 1, 1)?, span(1, 1, length)?),
            Self::Batch => (span(1, 8, 32)?, span(1, 1, length.min(512))?),
            Self::LongPrompt => (span(1, 1, 1)?, span(1, length.div_ceil(2), length)?),
        };
        Profile::new(name, batch, sequence, past)
    }

    /// Parses the name of a preset, `NAME:PRESET`, or what [`Profile`] parses.
    ///
    /// # Errors
    /// [`Error::Profile`].
    pub fn parse(text: &str, lengths: &ModelLengths) -> Result<Profile, Error> {
        if let Some(preset) = Self::of_name(text) {
            return preset.profile(preset.name(), lengths);
        }
        match text.split_once(':').map(|(name, rest)| (name, Self::of_name(rest))) {
            Some((name, Some(preset))) => preset.profile(name, lengths),
            Some((_, None)) => text.parse(),
            None => {
                let names = Self::ALL.map(Self::name).join(", ");
                Err(Error::Profile { profile: text.to_owned(), reason: format!("is no preset ({names}), and has no `:` after a name") })
            }
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(max_positions: Option<u64>) -> ModelLengths {
        ModelLengths { max_positions, ..ModelLengths::default() }
    }

    #[test]
    fn presets_fit_the_model() {
        let parse = |text: &str, limit| Preset::parse(text, &lengths(limit)).unwrap().to_string();
        assert_eq!(parse("chat", Some(8192)), "chat:batch=1,sequence=1..1..4096,past=0..1024..4095");
        assert_eq!(parse("main:chat", Some(1024)), "main:batch=1,sequence=1..1..1024,past=0..256..1023");
        assert_eq!(parse("batch", Some(131_072)), "batch:batch=1..8..32,sequence=1..1..512,past=0..512..2047");
        assert_eq!(parse("long-prompt", Some(131_072)), "long-prompt:batch=1,sequence=1..16384..32768,past=0..0..32767");
        assert_eq!(parse("long-prompt", None), "long-prompt:batch=1,sequence=1..2048..4096,past=0..0..4095");
        for preset in Preset::ALL {
            for limit in [1, 2, 3, 100] {
                let profile = preset.profile("p", &lengths(Some(limit))).unwrap();
                lengths(Some(limit)).check(&profile).unwrap();
            }
        }
        let error = Preset::parse("chatt", &lengths(None)).unwrap_err().to_string();
        assert!(error.contains("is no preset (chat, batch, long-prompt)"), "{error}");
    }
}
