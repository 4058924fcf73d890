//! Names given by hand, for graphs whose inputs and outputs bear others than those that are recognised.

use std::collections::BTreeMap;

use crate::Error;
use crate::interface::{Part, Slot};

/// What `--map` says: which tensors of a graph are which of ours.
///
/// Ours are `input_ids`, `attention_mask`, `position_ids`, `cache_position`, `use_cache_branch`, `past_key_values.*.key`,
/// `past_key_values.*.value`, `logits`, `present.*.key` and `present.*.value`; `past_key_values.*` and `present.*` hold keys and values stacked. `*` stands for the layer, or a
/// number does. What is not mapped is recognised as ever.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameMap {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    ours: Ours,
    theirs: String,
    /// As it was given.
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ours {
    One(Slot),
    EachPast(Part),
    EachPresent(Part),
}

impl NameMap {
    /// Reads entries of the form `ours=theirs`.
    ///
    /// # Errors
    /// An entry without `=`, a name of ours that does not exist, or a `*` on one side only.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, Error> {
        let entries = entries.into_iter().map(|text| entry(text).map_err(|problem| Error::Map { entry: text.to_owned(), problem }));
        Ok(Self { entries: entries.collect::<Result<_, _>>()? })
    }

    /// Indices of the named inputs and outputs by what they are for.
    pub(crate) fn resolve(&self, inputs: &[&str], outputs: &[&str]) -> Result<BTreeMap<Slot, usize>, String> {
        let mut slots: BTreeMap<Slot, usize> = BTreeMap::new();
        for Entry { ours, theirs, text } in &self.entries {
            let (names, kind) = if ours.is_input() { (inputs, "input") } else { (outputs, "output") };
            let found: Vec<(Slot, usize)> = match *ours {
                Ours::One(slot) => names.iter().position(|name| name == theirs).map(|index| (slot, index)).into_iter().collect(),
                Ours::EachPast(part) => layers(theirs, names).map(|(layer, index)| (Slot::Past(layer, part), index)).collect(),
                Ours::EachPresent(part) => layers(theirs, names).map(|(layer, index)| (Slot::Present(layer, part), index)).collect(),
            };
            if found.is_empty() {
                return Err(format!("`--map {text}`: it has no {kind} `{theirs}`"));
            }
            for (slot, index) in found {
                let twice = slots.iter().find(|&(before, at)| *at == index && before.is_input() == slot.is_input());
                if let Some((before, _)) = twice {
                    return Err(format!("`--map {text}`: {kind} `{}` is mapped to `{before}` already", names[index]));
                }
                if let Some(before) = slots.insert(slot, index) {
                    return Err(format!("`--map {text}`: `{slot}` is mapped already, to `{}`", names[before]));
                }
            }
        }
        Ok(slots)
    }
}

impl Ours {
    fn is_input(self) -> bool {
        match self {
            Self::One(slot) => slot.is_input(),
            Self::EachPast(_) => true,
            Self::EachPresent(_) => false,
        }
    }
}

fn entry(text: &str) -> Result<Entry, String> {
    let (ours, theirs) = text.split_once('=').ok_or("it is not of the form OURS=THEIRS")?;
    let stars = (ours.matches('*').count(), theirs.matches('*').count());
    let ours = ours_of(ours).ok_or_else(|| {
        format!(
            "`{ours}` is none of input_ids, attention_mask, position_ids, cache_position, use_cache_branch, past_key_values.*.key, \
             past_key_values.*.value, past_key_values.*, logits, present.*.key, present.*.value, present.*"
        )
    })?;
    match stars {
        (0, 0) | (1, 1) if !theirs.is_empty() => Ok(Entry { ours, theirs: theirs.to_owned(), text: text.to_owned() }),
        (0, 0) | (1, 1) => Err("it names nothing on the right".to_owned()),
        _ => Err("`*`, which stands for the layer, belongs once on either side or on neither".to_owned()),
    }
}

fn ours_of(name: &str) -> Option<Ours> {
    let one = match name {
        "input_ids" => Slot::InputIds,
        "attention_mask" => Slot::AttentionMask,
        "position_ids" => Slot::PositionIds,
        "cache_position" => Slot::CachePosition,
        "use_cache_branch" => Slot::UseCache,
        "logits" => Slot::Logits,
        _ => {
            let (past, rest) = match name.strip_prefix("past_key_values.") {
                Some(rest) => (true, rest),
                None => (false, name.strip_prefix("present.")?),
            };
            let (layer, part) = match rest.split_once('.') {
                None => (rest, Part::Both),
                Some((layer, "key")) => (layer, Part::Key),
                Some((layer, "value")) => (layer, Part::Value),
                Some(_) => return None,
            };
            return match (layer, past) {
                ("*", true) => Some(Ours::EachPast(part)),
                ("*", false) => Some(Ours::EachPresent(part)),
                (_, true) => layer.parse().ok().map(|layer| Ours::One(Slot::Past(layer, part))),
                (_, false) => layer.parse().ok().map(|layer| Ours::One(Slot::Present(layer, part))),
            };
        }
    };
    Some(Ours::One(one))
}

/// Layer and index of the names that match `pattern` with digits at its `*`: the order of their numbers is that of the layers.
fn layers(pattern: &str, names: &[&str]) -> impl Iterator<Item = (usize, usize)> {
    let (before, after) = pattern.split_once('*').unwrap_or((pattern, ""));
    let number = |name: &str| {
        let digits = name.strip_prefix(before)?.strip_suffix(after)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<usize>().ok()).flatten()
    };
    let numbered: BTreeMap<usize, usize> =
        names.iter().enumerate().filter_map(|(index, name)| number(name).map(|number| (number, index))).collect();
    numbered.into_values().enumerate()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(entries: &[&str], inputs: &[&str], outputs: &[&str]) -> Result<Vec<String>, String> {
        let map = NameMap::parse(entries.iter().copied()).map_err(|error| error.to_string())?;
        let slots = map.resolve(inputs, outputs)?;
        let name = |slot: &Slot, index: usize| if slot.is_input() { inputs[index] } else { outputs[index] };
        Ok(slots.iter().map(|(slot, &index)| format!("{slot}={}", name(slot, index))).collect())
    }

    #[test]
    fn a_star_counts_layers_in_the_order_of_their_numbers() {
        let inputs = ["t", "c.10.k", "c.2.k", "c.x.k", "c.2.v"];
        let found = resolve(&["input_ids=t", "past_key_values.*.key=c.*.k"], &inputs, &[]).unwrap();
        assert_eq!(found, ["input_ids=t", "past_key_values.0.key=c.2.k", "past_key_values.1.key=c.10.k"]);
        let found = resolve(&["present.7=t", "present.*.value=*"], &[], &["t", "5"]).unwrap();
        assert_eq!(found, ["present.0.value=5", "present.7=t"]);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_the_entry() {
        let refused = |entries: &[&str]| resolve(entries, &["a", "b"], &["c"]).unwrap_err();
        assert_eq!(refused(&["input_ids"]), "`--map input_ids`: it is not of the form OURS=THEIRS");
        assert!(refused(&["ids=a"]).starts_with("`--map ids=a`: `ids` is none of input_ids, attention_mask"));
        assert!(refused(&["past_key_values.0.keys=a"]).contains("is none of"));
        assert!(refused(&["past_key_values.*.key=a"]).contains("belongs once on either side"));
        assert_eq!(refused(&["logits="]), "`--map logits=`: it names nothing on the right");
        assert_eq!(refused(&["logits=a"]), "`--map logits=a`: it has no output `a`", "that is an input");
        assert_eq!(refused(&["past_key_values.*.key=k*"]), "`--map past_key_values.*.key=k*`: it has no input `k*`");
        assert_eq!(refused(&["input_ids=a", "position_ids=a"]), "`--map position_ids=a`: input `a` is mapped to `input_ids` already");
        assert_eq!(refused(&["input_ids=a", "input_ids=b"]), "`--map input_ids=b`: `input_ids` is mapped already, to `a`");
    }
}
