//! What transformers made of a GGUF, and the comparison with an imported folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use plansmith_checkpoint::gguf::{ImportOptions, Imported, import};
use plansmith_checkpoint::inspect_file;
use plansmith_files::Digest;
use plansmith_tensor::DType;
use serde::Deserialize;
use serde_json::Value;
use tokenizers::Tokenizer;

#[derive(Deserialize)]
pub(crate) struct Oracle {
    pub(crate) tensors: BTreeMap<String, Tensor>,
    pub(crate) sentences: Vec<Sentence>,
    pub(crate) chat_template: Option<String>,
    pub(crate) special_tokens: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) config: Value,
    #[serde(default)]
    pub(crate) sha256: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Tensor {
    shape: Vec<u64>,
    f32: String,
    bf16: String,
}

#[derive(Deserialize)]
pub(crate) struct Sentence {
    text: String,
    ids: Vec<u32>,
}

pub(crate) fn read(path: &Path) -> Oracle {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Imports `gguf` as `dtype` and compares weights, token ids and chat template.
pub(crate) fn check(gguf: &Path, folder: &Path, dtype: DType, oracle: &Oracle) -> Imported {
    let imported = import(gguf, folder, &ImportOptions { dtype, force: false }, &|_, _| {}).unwrap();
    check_weights(&folder.join("model.safetensors"), dtype, oracle);
    let tokenizer = Tokenizer::from_file(folder.join("tokenizer.json")).unwrap();
    for sentence in &oracle.sentences {
        let ids = tokenizer.encode(sentence.text.as_str(), true).unwrap().get_ids().to_vec();
        assert_eq!(ids, sentence.ids, "{:?}", sentence.text);
    }
    let config = json(&folder.join("tokenizer_config.json"));
    assert_eq!(config["tokenizer_class"], "PreTrainedTokenizerFast");
    assert_eq!(config.get("chat_template").and_then(Value::as_str), oracle.chat_template.as_deref());
    assert_eq!(fs::read_to_string(folder.join("chat_template.jinja")).ok(), oracle.chat_template);
    for (role, token) in &oracle.special_tokens {
        assert_eq!(config[role], token.as_str(), "{role}");
    }
    imported
}

fn check_weights(path: &Path, dtype: DType, oracle: &Oracle) {
    let file = fs::read(path).unwrap();
    let header = inspect_file(path).unwrap().header;
    assert_eq!(header.tensors.keys().collect::<Vec<_>>(), oracle.tensors.keys().collect::<Vec<_>>());
    for (name, expected) in &oracle.tensors {
        let tensor = &header.tensors[name];
        let bytes = &file[tensor.offset as usize..][..tensor.bytes as usize];
        let sha256 = if dtype == DType::BF16 { &expected.bf16 } else { &expected.f32 };
        assert_eq!((tensor.dtype, &tensor.shape), (dtype, &expected.shape), "{name}");
        assert_eq!(&Digest::of(bytes).to_string(), sha256, "{name}");
    }
}
