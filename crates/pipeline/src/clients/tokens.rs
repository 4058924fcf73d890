//! The tokens with a role, and the length that a model can be run at.

use plansmith_families::{DecoderSpec, Positions};
use plansmith_lowering::Source;
use serde_json::Value;

/// Ids of the tokens with a role, as generation reads them: generation_config.json goes before config.json.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Roles {
    pub(super) bos: Option<u64>,
    /// Any of these ends a text; the first is the one that padding is made of where there is no other.
    pub(super) eos: Vec<u64>,
    /// What fills rows; the mask is 0 there.
    pub(super) pad: Option<u64>,
}

impl Roles {
    /// Of the two files; each may be absent, and each key may be.
    pub(super) fn of(generation: Option<&Value>, config: Option<&Value>) -> Self {
        let key = |name: &str| {
            let stated = |file: Option<&Value>| file.and_then(|file| file.get(name)).filter(|value| !value.is_null()).cloned();
            stated(generation).or_else(|| stated(config))
        };
        let eos = ids(key("eos_token_id").as_ref());
        let pad = ids(key("pad_token_id").as_ref()).first().copied().or_else(|| eos.first().copied());
        Self { bos: ids(key("bos_token_id").as_ref()).first().copied(), eos, pad }
    }

    /// `eos_token_id` as files state it: a number where there is one.
    pub(super) fn eos_value(&self) -> Option<Value> {
        match self.eos[..] {
            [] => None,
            [one] => Some(one.into()),
            _ => Some(self.eos.clone().into()),
        }
    }

    /// Keys and values of the roles that are known.
    pub(super) fn entries(&self) -> Vec<(&'static str, Value)> {
        let number = |key, id: Option<u64>| id.map(|id| (key, Value::from(id)));
        let eos = self.eos_value().map(|value| ("eos_token_id", value));
        [number("bos_token_id", self.bos), eos, number("pad_token_id", self.pad)].into_iter().flatten().collect()
    }
}

/// A number or a list of numbers; −1, which some configs say for "none", is none.
pub(super) fn ids(value: Option<&Value>) -> Vec<u64> {
    match value {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_u64).collect(),
        Some(value) => value.as_u64().into_iter().collect(),
        None => Vec::new(),
    }
}

/// Tokens, prompt and answer together, that the graphs of `source` serve with one cache: what the model was made for, what
/// `max_length` said, the rows of a table of positions, and the length at which rotations change, whichever is the least.
pub(super) fn context_length(source: &Source) -> u64 {
    let spec = &source.loaded.spec;
    let limits = [source.loaded.max_length, spec.switch_length(), table_rows(spec)];
    limits.into_iter().flatten().fold(spec.max_positions, u64::min)
}

fn table_rows(spec: &DecoderSpec) -> Option<u64> {
    match spec.embedding.positions.as_ref()? {
        Positions::Learned { weight, offset } => Some(weight.shape.first()?.saturating_sub(*offset)),
        Positions::Sinusoidal { .. } => None,
    }
}

/// The id of a token in tokenizer.json.
pub(super) fn id_of(tokenizer: &Value, token: &str) -> Option<u64> {
    let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
    let added = added.into_iter().find(|entry| entry["content"] == token).and_then(|entry| entry["id"].as_u64());
    added.or_else(|| match &tokenizer["model"]["vocab"] {
        Value::Object(vocab) => vocab.get(token)?.as_u64(),
        // A unigram vocabulary is a list of pairs of token and score.
        Value::Array(list) => list.iter().position(|entry| entry[0] == token).map(|index| index as u64),
        _ => None,
    })
}

/// The token of an id in tokenizer.json.
pub(super) fn token_of(tokenizer: &Value, id: u64) -> Option<String> {
    let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
    let added = added.into_iter().find(|entry| entry["id"] == id).and_then(|entry| entry["content"].as_str());
    let token = added.or_else(|| match &tokenizer["model"]["vocab"] {
        Value::Object(vocab) => vocab.iter().find(|(_, found)| **found == id).map(|(token, _)| token.as_str()),
        Value::Array(list) => list.get(usize::try_from(id).ok()?)?[0].as_str(),
        _ => None,
    });
    token.map(str::to_owned)
}

/// The text of a token in tokenizer_config.json: a string, or an object with `content`.
pub(super) fn text_of(token: Option<&Value>) -> Option<&str> {
    let token = token?;
    token.as_str().or_else(|| token.get("content")?.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn generation_goes_before_config_and_padding_falls_back_on_the_end() {
        let config = json!({"bos_token_id": 1, "eos_token_id": 5, "pad_token_id": -1});
        let generation = json!({"eos_token_id": [7, 5], "bos_token_id": null});
        let roles = Roles::of(Some(&generation), Some(&config));
        assert_eq!(roles, Roles { bos: Some(1), eos: vec![7, 5], pad: Some(7) });
        assert_eq!(
            Roles::of(None, Some(&config)).entries(),
            [("bos_token_id", json!(1)), ("eos_token_id", json!(5)), ("pad_token_id", json!(5))]
        );
        assert!(Roles::of(None, None).entries().is_empty());
    }

    #[test]
    fn tokens_are_found_in_every_kind_of_vocabulary() {
        let map = json!({"added_tokens": [{"id": 9, "content": "<end>"}], "model": {"vocab": {"a": 3}}});
        let list = json!({"model": {"vocab": [["<unk>", 0.0], ["b", -1.5]]}});
        assert_eq!((id_of(&map, "<end>"), id_of(&map, "a"), id_of(&map, "b"), id_of(&list, "b")), (Some(9), Some(3), None, Some(1)));
        assert_eq!(
            (token_of(&map, 9).as_deref(), token_of(&map, 3).as_deref(), token_of(&list, 1).as_deref()),
            (Some("<end>"), Some("a"), Some("b"))
        );
    }
}
