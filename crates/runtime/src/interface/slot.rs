//! What an input or an output of a decoder graph is for, and how names tell.

use std::fmt;

/// Which half of a layer's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    Key,
    Value,
    /// Keys and values stacked, `[2, batch, heads, past, head_dim]`.
    Both,
}

/// What an input or an output is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Slot {
    InputIds,
    AttentionMask,
    PositionIds,
    /// The slot of a static cache that each row's first new token goes to, `[batch]`.
    CachePosition,
    /// Whether the cache holds anything: graphs that carry one branch for each.
    UseCache,
    Past(usize, Part),
    Logits,
    Present(usize, Part),
}

impl Slot {
    /// Whether it is an input; else an output.
    pub(crate) fn is_input(self) -> bool {
        !matches!(self, Self::Logits | Self::Present(..))
    }
}

impl fmt::Display for Slot {
    /// As `--map` names it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, layer, part) = match self {
            Self::InputIds => return f.write_str("input_ids"),
            Self::AttentionMask => return f.write_str("attention_mask"),
            Self::PositionIds => return f.write_str("position_ids"),
            Self::CachePosition => return f.write_str("cache_position"),
            Self::UseCache => return f.write_str("use_cache_branch"),
            Self::Logits => return f.write_str("logits"),
            Self::Past(layer, part) => ("past_key_values", layer, part),
            Self::Present(layer, part) => ("present", layer, part),
        };
        let part = match part {
            Part::Key => ".key",
            Part::Value => ".value",
            Part::Both => "",
        };
        write!(f, "{name}.{layer}{part}")
    }
}

/// What an integer or bool input of this name is; `None` where the name does not say.
pub(crate) fn of_tokens(name: &str) -> Option<Slot> {
    let name = name.to_ascii_lowercase();
    // TorchScript numbers names that it has met before.
    let name = name.rsplit_once('.').filter(|(_, tail)| tail.bytes().all(|byte| byte.is_ascii_digit())).map_or(&*name, |(head, _)| head);
    match name {
        "input_ids" | "input_tokens" | "token_ids" | "tokens" | "ids" | "input" | "inputs" => Some(Slot::InputIds),
        "attention_mask" | "attn_mask" | "padding_mask" | "mask" => Some(Slot::AttentionMask),
        "position_ids" | "pos_ids" | "positions" | "position" | "pos" => Some(Slot::PositionIds),
        "cache_position" => Some(Slot::CachePosition),
        "use_cache_branch" => Some(Slot::UseCache),
        _ => None,
    }
}

/// Whether an output of this name holds logits.
pub(crate) fn is_logits(name: &str) -> bool {
    words(&name.to_ascii_lowercase()).contains(&"logits")
}

/// What the name of a cache tensor says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheName {
    /// The number in it, if there is one and only one that can be a layer's.
    pub(crate) number: Option<usize>,
    pub(crate) part: Option<Part>,
}

/// Reads `past_key_values.3.key`, `present_3_value`, `key_cache_3`, `past_3_0` (key) and their like.
pub(crate) fn of_cache(name: &str) -> CacheName {
    let lower = name.to_ascii_lowercase();
    let all = words(&lower);
    let mut part = None;
    let mut numbers = Vec::new();
    let mut index = 0;
    while let Some(&word) = all.get(index) {
        // In `past_key_values` the two words are no part.
        let pair = matches!((word, all.get(index + 1)), ("key" | "keys", Some(&("value" | "values"))));
        index += if pair { 2 } else { 1 };
        let found = match word {
            _ if pair => continue,
            "k" | "key" | "keys" => Part::Key,
            "v" | "value" | "values" => Part::Value,
            word => {
                numbers.extend(word.parse::<usize>());
                continue;
            }
        };
        if part.replace(found).is_some_and(|before| before != found) {
            return CacheName { number: None, part: None };
        }
    }
    match (part, numbers.as_slice()) {
        // Nested tuples, as PyTorch flattens them: (key, value) of each layer.
        (None, &[layer, half @ (0 | 1)]) => CacheName { number: Some(layer), part: Some([Part::Key, Part::Value][half]) },
        (part, &[number]) => CacheName { number: Some(number), part },
        (part, _) => CacheName { number: None, part },
    }
}

/// Runs of letters, and runs of digits.
fn words(name: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for run in name.split(|character: char| !character.is_ascii_alphanumeric()) {
        let mut rest = run;
        while let Some(first) = rest.bytes().next() {
            let end = rest.bytes().position(|byte| byte.is_ascii_digit() != first.is_ascii_digit()).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            words.push(word);
            rest = after;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tokens_masks_and_positions() {
        assert_eq!(of_tokens("input_ids"), Some(Slot::InputIds));
        assert_eq!(of_tokens("Tokens"), Some(Slot::InputIds));
        assert_eq!(of_tokens("input.1"), Some(Slot::InputIds), "TorchScript's");
        assert_eq!(of_tokens("attention_mask.1"), Some(Slot::AttentionMask));
        assert_eq!(of_tokens("inputs_embeds"), None);
        assert_eq!(of_tokens("onnx::Gather_0"), None);
    }

    /// The names that exporters write, each seen in a graph.
    #[test]
    fn names_of_caches() {
        let name = |name| {
            let CacheName { number, part } = of_cache(name);
            (number, part)
        };
        let (key, value) = (Some(Part::Key), Some(Part::Value));
        assert_eq!(name("past_key_values.11.key"), (Some(11), key));
        assert_eq!(name("past_key_values.0.value"), (Some(0), value));
        assert_eq!(name("present.7.value"), (Some(7), value));
        assert_eq!(name("present_key_3"), (Some(3), key));
        assert_eq!(name("past_key_values_value_cache_2"), (Some(2), value));
        assert_eq!(name("pastK2"), (Some(2), None), "words are not split by case");
        assert_eq!(name("past_1_0"), (Some(1), key), "PyTorch's nested tuples");
        assert_eq!(name("past_1_1"), (Some(1), value));
        assert_eq!(name("past_3"), (Some(3), None));
        assert_eq!(name("key_states.3"), (Some(3), key));
        assert_eq!(name("value"), (None, value));
        assert_eq!(name("past_key_values.0.key_value"), (Some(0), None), "a key and a value in one is neither");
        assert_eq!(name("layers.2.block.1.key"), (None, key), "which number is the layer?");
        assert_eq!(name("k_to_v_0"), (None, None));
    }

    #[test]
    fn slots_are_shown_as_they_are_mapped() {
        assert_eq!(Slot::Past(3, Part::Key).to_string(), "past_key_values.3.key");
        assert_eq!(Slot::Present(0, Part::Both).to_string(), "present.0");
        assert!(is_logits("lm_logits.1") && !is_logits("logit"));
    }
}
