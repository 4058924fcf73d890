//! The spec against the tensors that the checkpoint holds: nothing missing, nothing of another shape, nothing left over.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::config::nearest;
use crate::{DecoderSpec, Error};

/// Names and shapes of a checkpoint's tensors.
#[derive(Debug, Clone, Default)]
pub struct Tensors<'a>(HashMap<&'a str, &'a [u64]>);

impl<'a> FromIterator<(&'a str, &'a [u64])> for Tensors<'a> {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a [u64])>>(tensors: I) -> Self {
        Self(tensors.into_iter().collect())
    }
}

/// Keys of widths that lists are made by.
const WIDTHS: [&str; 9] =
    ["head_dim", "hidden_size", "num_attention_heads", "num_key_value_heads", "n_embd", "d_model", "n_head", "n_heads", "rotary_dim"];

/// Names that transformers registers as buffers or trainers leave behind; none is read at inference.
fn is_known_buffer(name: &str, shape: &[u64]) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let empty = shape.contains(&0);
    match *shape {
        _ if empty => true,
        // Causal masks and what they fill in, tables of sines: by shapes that no weight of these names has.
        [1, 1, rows, columns] if rows == columns => matches!(last, "bias" | "causal_mask"),
        [rows, columns] if rows == columns && matches!(name, "bias" | "transformer.bias") => true,
        [] => matches!(last, "masked_bias" | "num_updates" | "step"),
        _ => name.ends_with("rotary_emb.inv_freq") || name.ends_with("embed_positions.weights"),
    }
}

impl Tensors<'_> {
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether any name begins with `prefix`.
    pub(crate) fn any_below(&self, prefix: &str) -> bool {
        self.0.keys().any(|name| name.starts_with(prefix))
    }

    /// Refuses, before anything is made of it, a width that no tensor has: tables of rotations and slopes are as long as these keys say.
    /// Small ones are left to the comparison of shapes, which says more. The objects within, such as `text_config`, are looked through too.
    pub(crate) fn bound(&self, config: &Map<String, Value>) -> Result<(), Error> {
        let largest = self.0.values().flat_map(|shape| shape.iter()).max().copied().unwrap_or(0).clamp(1 << 16, 1 << 31);
        let within = config.iter().filter_map(|(name, value)| Some((format!("{name}."), value.as_object()?)));
        for (path, map) in [(String::new(), config)].into_iter().chain(within) {
            for key in WIDTHS {
                if let Some(value) = map.get(key).and_then(Value::as_u64).filter(|&value| value > largest) {
                    return Err(Error::Key {
                        key: format!("{path}{key}"),
                        problem: format!("is {value}, more than any tensor's dimension; the largest is {largest}"),
                    });
                }
            }
        }
        Ok(())
    }

    /// Checks `spec` against these tensors.
    pub(crate) fn bind(&self, spec: &DecoderSpec) -> Result<(), Error> {
        let mut used = HashSet::new();
        for weight in spec.weights() {
            let Some(&shape) = self.0.get(weight.name.as_str()) else {
                return Err(Error::MissingTensor { name: weight.name.clone(), nearest: self.nearest(&weight.name) });
            };
            if shape != weight.shape {
                return Err(Error::WrongShape {
                    name: weight.name.clone(),
                    found: shape.to_vec(),
                    wanted: weight.shape.clone(),
                    because: weight.because.clone(),
                });
            }
            used.insert(weight.name.as_str());
        }
        let unread = |(name, shape): &(&&str, &&[u64])| !used.contains(**name) && !is_known_buffer(name, shape);
        let mut left: Vec<_> = self.0.iter().filter(unread).map(|(name, _)| *name).collect();
        left.sort_unstable();
        match left.first() {
            None => Ok(()),
            Some(name) => Err(Error::UnreadTensor { name: (*name).to_owned(), count: left.len() }),
        }
    }

    /// The stored name that ends alike (another prefix), else the one that is spelt most alike.
    fn nearest(&self, name: &str) -> Option<String> {
        let mut names: Vec<&str> = self.0.keys().copied().collect();
        names.sort_unstable();
        let prefixed = names.iter().find(|stored| stored.ends_with(name) || name.ends_with(*stored)).copied();
        prefixed.or_else(|| nearest(name, names.iter().copied())).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_width_beyond_every_tensor_is_refused_before_tables_are_made() {
        let tensors: Tensors<'_> = [("a", [4_u64, 200_000].as_slice())].into_iter().collect();
        let bound = |value: u64| tensors.bound(serde_json::json!({ "head_dim": value }).as_object().unwrap());
        assert!(bound(200_000).is_ok());
        assert!(matches!(bound(2_147_483_648), Err(Error::Key { key, .. }) if key == "head_dim"));
        let within = serde_json::json!({ "text_config": { "hidden_size": 2_147_483_648_u64 } });
        assert!(matches!(tensors.bound(within.as_object().unwrap()), Err(Error::Key { key, .. }) if key == "text_config.hidden_size"));
    }

    #[test]
    fn masks_of_old_checkpoints_are_known_and_biases_are_not() {
        // As the checkpoints of openai-community/gpt2, EleutherAI/gpt-neo-125m, EleutherAI/pythia-70m and Salesforce/codegen-350M-mono have them.
        let known: [(&str, &[u64]); 6] = [
            ("h.0.attn.bias", &[1, 1, 1024, 1024]),
            ("transformer.h.0.attn.attention.bias", &[1, 1, 2048, 2048]),
            ("transformer.h.0.attn.attention.masked_bias", &[]),
            ("gpt_neox.layers.0.attention.masked_bias", &[]),
            ("gpt_neox.layers.0.attention.rotary_emb.inv_freq", &[8]),
            ("transformer.h.0.attn.causal_mask", &[1, 1, 2048, 2048]),
        ];
        for (name, shape) in known {
            assert!(is_known_buffer(name, shape), "{name}");
        }
        let weights: [(&str, &[u64]); 4] = [
            ("h.0.attn.c_attn.bias", &[2304]),
            ("transformer.h.0.attn.c_attn.weight", &[768, 768]),
            ("gpt_neox.layers.0.attention.dense.bias", &[512]),
            ("model.decoder.embed_positions.weight", &[2050, 768]),
        ];
        for (name, shape) in weights {
            assert!(!is_known_buffer(name, shape), "{name}");
        }
    }
}
