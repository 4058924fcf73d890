//! Reading `config.json` key by key, remembering what was read.
//!
//! JSON `null` is a value of its own: what it means differs by key and class, so the reader says which of the three states a key is in.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::Error;

/// Keys that no causal language model's inference depends on.
pub(crate) const IRRELEVANT: &[&str] = &[
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_flash_attn_2_enabled",
    "_from_model_config",
    "_name_or_path",
    "_num_labels",
    "activation_dropout",
    "architectures",
    "attention_dropout",
    "attention_dropout_prob",
    "attention_probs_dropout_prob",
    "attn_dropout",
    "attn_implementation",
    "attn_pdrop",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cross_attention_hidden_size",
    "custom_pipelines",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dropout",
    "dtype",
    "early_stopping",
    "emb_pdrop",
    "embd_pdrop",
    "embed_dropout",
    "embedding_dropout",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "hidden_dropout_prob",
    "id2label",
    "initializer_factor",
    "initializer_range",
    "is_decoder",
    "is_llama_config",
    "label2id",
    "layerdrop",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "max_sequence_length",
    "min_length",
    "min_new_tokens",
    "model_max_length",
    "model_type",
    "name_or_path",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_dropout",
    "resid_pdrop",
    "residual_dropout",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tie_last_hidden_states",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
];

/// Keys that are harmless at one value only.
fn is_neutral(key: &str, value: &Value) -> bool {
    match key {
        "add_cross_attention"
        | "attention_bias"
        | "is_encoder_decoder"
        | "mlp_bias"
        | "output_router_logits"
        | "rope_interleaved"
        | "use_mrope"
        | "use_sliding_window" => value == &Value::Bool(false),
        // A class of its own for causal language models may compute anything; a config or tokenizer class may not.
        "auto_map" => value.as_object().is_some_and(|map| !map.contains_key("AutoModelForCausalLM")),
        "partial_rotary_factor" => value.as_f64() == Some(1.0),
        "pruned_heads" => value.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// The state of one key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stored<T> {
    Absent,
    Null,
    Value(T),
}

impl<T> Stored<T> {
    /// The value; `null` and absence both mean `None`.
    pub(crate) fn optional(self) -> Option<T> {
        match self {
            Stored::Value(value) => Some(value),
            Stored::Null | Stored::Absent => None,
        }
    }
}

/// One JSON object of the config.
pub(crate) struct Config<'a> {
    map: &'a Map<String, Value>,
    path: &'static str,
    read: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Config<'a> {
    pub(crate) fn new(map: &'a Map<String, Value>) -> Self {
        Self { map, path: "", read: RefCell::default() }
    }

    /// Whether it has no key at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Whether it has the same keys and values as `other`, but for those of `without`.
    pub(crate) fn says(&self, other: &Self, without: &[&str]) -> bool {
        let entries = |map: &'a Map<String, Value>| -> Vec<(&'a String, &'a Value)> {
            map.iter().filter(|(key, _)| !without.contains(&key.as_str())).collect()
        };
        let (mut ours, mut theirs) = (entries(self.map), entries(other.map));
        ours.sort_by_key(|(key, _)| *key);
        theirs.sort_by_key(|(key, _)| *key);
        ours == theirs
    }

    /// An error about `key` of this object.
    pub(crate) fn error(&self, key: &str, problem: impl Into<String>) -> Error {
        Error::Key { key: self.name(key), problem: problem.into() }
    }

    /// The name of `key` from the root.
    pub(crate) fn name(&self, key: &str) -> String {
        format!("{}{key}", self.path)
    }

    fn stored<T>(&self, key: &'static str, wanted: &str, read: impl Fn(&'a Value) -> Option<T>) -> Result<Stored<T>, Error> {
        self.read.borrow_mut().insert(key);
        match self.map.get(key) {
            None => Ok(Stored::Absent),
            Some(Value::Null) => Ok(Stored::Null),
            Some(value) => {
                read(value).map(Stored::Value).ok_or_else(|| self.error(key, format!("is {}, where {wanted} is needed", short(value))))
            }
        }
    }

    /// A size: an integer from 1 to 2³².
    pub(crate) fn size(&self, key: &'static str) -> Result<Stored<u64>, Error> {
        self.stored(key, "an integer above 0", |value| value.as_u64().filter(|&size| size > 0 && size <= 1 << 32))
    }

    /// A count that may be 0.
    pub(crate) fn count(&self, key: &'static str) -> Result<Stored<u64>, Error> {
        self.stored(key, "an integer of 0 or more", |value| value.as_u64().filter(|&count| count <= 1 << 32))
    }

    pub(crate) fn float(&self, key: &'static str) -> Result<Stored<f64>, Error> {
        self.stored(key, "a finite number", |value| value.as_f64().filter(|number| number.is_finite()))
    }

    pub(crate) fn flag(&self, key: &'static str) -> Result<Stored<bool>, Error> {
        self.stored(key, "true or false", Value::as_bool)
    }

    pub(crate) fn text(&self, key: &'static str) -> Result<Stored<&'a str>, Error> {
        self.stored(key, "a string", Value::as_str)
    }

    pub(crate) fn list(&self, key: &'static str) -> Result<Stored<&'a Vec<Value>>, Error> {
        self.stored(key, "a list", Value::as_array)
    }

    /// A nested object; its keys are read and finished on their own.
    pub(crate) fn object(&self, key: &'static str, path: &'static str) -> Result<Stored<Config<'a>>, Error> {
        self.stored(key, "an object", |value| value.as_object().map(|map| Config { map, path, read: RefCell::default() }))
    }

    /// Whichever of `key` and its other name stands in the config (transformers' `attribute_map`); two that differ are refused.
    pub(crate) fn either(&self, key: &'static str, other: &'static str) -> Result<&'static str, Error> {
        self.read.borrow_mut().extend([key, other]);
        match (self.map.get(key), self.map.get(other)) {
            (Some(value), Some(same)) if value != same => {
                Err(self.error(other, format!("is {}, but `{key}` is {}", short(same), short(value))))
            }
            (None, Some(_)) => Ok(other),
            _ => Ok(key),
        }
    }

    /// The value, `None` where the key is absent; `null` is refused, since the class has no `null` there.
    pub(crate) fn not_null<T>(&self, key: &'static str, stored: Stored<T>) -> Result<Option<T>, Error> {
        match stored {
            Stored::Value(value) => Ok(Some(value)),
            Stored::Absent => Ok(None),
            Stored::Null => Err(self.error(key, "is null, which transformers refuses here")),
        }
    }

    /// Absent means the class default; `null` is refused, since the class has no `null` there.
    pub(crate) fn or_default<T>(&self, key: &'static str, stored: Stored<T>, default: T) -> Result<T, Error> {
        Ok(self.not_null(key, stored)?.unwrap_or(default))
    }

    pub(crate) fn size_or(&self, key: &'static str, default: u64) -> Result<u64, Error> {
        self.or_default(key, self.size(key)?, default)
    }

    pub(crate) fn float_or(&self, key: &'static str, default: f64) -> Result<f64, Error> {
        self.or_default(key, self.float(key)?, default)
    }

    pub(crate) fn flag_or(&self, key: &'static str, default: bool) -> Result<bool, Error> {
        self.or_default(key, self.flag(key)?, default)
    }

    /// Refuses every key that was neither read nor is known to be irrelevant.
    pub(crate) fn finish(&self, model_type: &str, irrelevant: &[&str], allowed: &[String]) -> Result<(), Error> {
        if let Some(quantisation) = self.map.get("quantization_config").filter(|value| !value.is_null() && self.path.is_empty()) {
            let method = quantisation.get("quant_method").and_then(Value::as_str).unwrap_or("an unnamed method");
            return Err(Error::Quantised { method: method.to_owned() });
        }
        let read = self.read.borrow();
        for (key, value) in self.map {
            let name = self.name(key);
            let known = read.contains(key.as_str())
                || value.is_null()
                || (matches!(self.path, "" | "text_config.") && IRRELEVANT.contains(&key.as_str()))
                || is_neutral(key, value)
                || irrelevant.contains(&key.as_str())
                || allowed.contains(&name);
            if !known {
                let nearest = nearest(key, read.iter().copied()).map(str::to_owned);
                return Err(Error::UnknownKey { key: name, value: short(value), model_type: model_type.to_owned(), nearest });
            }
        }
        Ok(())
    }
}

/// The JSON of a value, cut to a line.
fn short(value: &Value) -> String {
    let mut text = value.to_string();
    if let Some((cut, _)) = text.char_indices().nth(60) {
        text.truncate(cut);
        text.push('…');
    }
    text
}

/// The candidate that is most like `name`, if one is alike at all.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::normalized_damerau_levenshtein(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}
