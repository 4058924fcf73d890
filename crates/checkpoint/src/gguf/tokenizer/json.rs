//! The JSON text of tokenizer.json and tokenizer_config.json. Source: the format of the `tokenizers` library, version 1.0.

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Kind, Role, Split, Tokenizer};

/// A token that is found in the text before it is cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::gguf) struct AddedToken {
    pub(in crate::gguf) id: u32,
    content: String,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
    normalized: bool,
    special: bool,
}

impl AddedToken {
    pub(super) fn new(id: u32, content: &str, special: bool) -> Self {
        Self { id, content: content.to_owned(), single_word: false, lstrip: false, rstrip: false, normalized: false, special }
    }
}

#[derive(Serialize)]
struct TokenizerJson<'a> {
    version: &'static str,
    truncation: (),
    padding: (),
    added_tokens: &'a [AddedToken],
    normalizer: (),
    pre_tokenizer: Value,
    post_processor: Value,
    decoder: Value,
    model: Bpe<'a>,
}

#[derive(Serialize)]
struct Bpe<'a> {
    r#type: &'static str,
    dropout: (),
    unk_token: (),
    continuing_subword_prefix: Option<&'static str>,
    end_of_word_suffix: Option<&'static str>,
    fuse_unk: bool,
    byte_fallback: bool,
    ignore_merges: bool,
    vocab: &'a IndexMap<String, u32>,
    merges: &'a [(String, String)],
}

#[derive(Serialize)]
struct ConfigJson<'a> {
    add_bos_token: bool,
    add_eos_token: bool,
    added_tokens_decoder: IndexMap<u32, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bos_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_template: Option<&'a str>,
    clean_up_tokenization_spaces: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    eos_token: Option<&'a str>,
    model_max_length: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pad_token: Option<&'a str>,
    tokenizer_class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    unk_token: Option<&'a str>,
}

impl Tokenizer {
    /// The text of tokenizer.json.
    pub(in crate::gguf) fn json(&self) -> serde_json::Result<Vec<u8>> {
        let byte_level = matches!(self.kind, Kind::ByteLevel(_));
        serde_json::to_vec(&TokenizerJson {
            version: "1.0",
            truncation: (),
            padding: (),
            added_tokens: &self.added,
            normalizer: (),
            pre_tokenizer: self.pre_tokenizer(),
            post_processor: self.post_processor(),
            decoder: self.decoder(),
            model: Bpe {
                r#type: "BPE",
                dropout: (),
                unk_token: (),
                continuing_subword_prefix: byte_level.then_some(""),
                end_of_word_suffix: byte_level.then_some(""),
                fuse_unk: !byte_level,
                byte_fallback: !byte_level,
                ignore_merges: false,
                vocab: &self.vocab,
                merges: &self.merges,
            },
        })
    }

    /// The text of tokenizer_config.json, of the one class that transformers 4 and 5 both know.
    pub(in crate::gguf) fn config_json(&self, context: u64) -> serde_json::Result<Vec<u8>> {
        fn text(role: &Option<Role>) -> Option<&str> {
            role.as_ref().map(|role| role.token.as_str())
        }
        let decoder = self.added.iter().map(|token| {
            let mut entry = json!(token);
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("id");
            }
            (token.id, entry)
        });
        serde_json::to_vec_pretty(&ConfigJson {
            add_bos_token: self.add_bos,
            add_eos_token: self.add_eos,
            added_tokens_decoder: decoder.collect(),
            bos_token: text(&self.special.bos),
            chat_template: self.chat_template.as_deref(),
            clean_up_tokenization_spaces: false,
            eos_token: text(&self.special.eos),
            model_max_length: context,
            pad_token: text(&self.special.pad),
            tokenizer_class: "PreTrainedTokenizerFast",
            unk_token: text(&self.special.unk),
        })
    }

    fn pre_tokenizer(&self) -> Value {
        let byte_level =
            |use_regex| json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex });
        match self.kind {
            Kind::ByteLevel(Split::Gpt2) => byte_level(true),
            Kind::ByteLevel(Split::Regex(regex)) => json!({
                "type": "Sequence",
                "pretokenizers": [
                    { "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated", "invert": false },
                    byte_level(false),
                ],
            }),
            Kind::SentencePiece => json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false }),
        }
    }

    fn decoder(&self) -> Value {
        match self.kind {
            Kind::ByteLevel(_) => json!({ "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true }),
            Kind::SentencePiece => json!({
                "type": "Sequence",
                "decoders": [
                    { "type": "Replace", "pattern": { "String": "▁" }, "content": " " },
                    { "type": "ByteFallback" },
                    { "type": "Fuse" },
                    { "type": "Strip", "content": " ", "start": 1, "stop": 0 },
                ],
            }),
        }
    }

    /// BOS and EOS around each text.
    fn post_processor(&self) -> Value {
        let bos = self.special.bos.as_ref().filter(|_| self.add_bos);
        let eos = self.special.eos.as_ref().filter(|_| self.add_eos);
        let part = |sequence: &str, type_id: u32| {
            let special = move |role: &Role| json!({ "SpecialToken": { "id": role.token, "type_id": type_id } });
            let text = json!({ "Sequence": { "id": sequence, "type_id": type_id } });
            bos.map(special).into_iter().chain([text]).chain(eos.map(special)).collect::<Vec<_>>()
        };
        let special_tokens: IndexMap<&str, Value> = [bos, eos]
            .into_iter()
            .flatten()
            .map(|role| (role.token.as_str(), json!({ "id": role.token, "ids": [role.id], "tokens": [role.token] })))
            .collect();
        let pair = [part("A", 0), part("B", 1)].concat();
        json!({
            "type": "TemplateProcessing",
            "single": part("A", 0),
            "pair": pair,
            "special_tokens": special_tokens,
        })
    }
}
