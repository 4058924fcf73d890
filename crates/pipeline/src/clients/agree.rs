//! Whether the files that clients read say the same of special tokens, lengths and caches, and what the graphs say.

use std::collections::BTreeSet;
use std::path::Path;

use plansmith_checkpoint::parse_json;
use plansmith_onnx::ExternalData;
use plansmith_onnx::proto::tensor_shape_proto::dimension;
use plansmith_onnx::proto::{GraphProto, ModelProto, ValueInfoProto, type_proto};
use plansmith_tensor::DType;
use serde_json::Value;

use super::genai::{GENAI_NAME, GenaiConfig};
use super::tokenizer::names_eos_in;
use super::tokens::{Roles, id_of, ids, text_of};
use crate::Error;

/// The files of one folder; those that are not there are not compared.
struct Files<'a> {
    folder: &'a Path,
    config: Option<Value>,
    generation: Option<Value>,
    tokenizer: Option<Value>,
    tokenizer_config: Option<Value>,
    genai: Option<GenaiConfig>,
}

/// Compares the files in `folder` with each other and with the graphs at `graphs`, paths within it.
///
/// # Errors
/// Names the file and the key that differ from the others, with both sides.
pub(crate) fn check_clients(folder: &Path, graphs: &[String]) -> Result<(), Error> {
    let files = Files {
        folder,
        config: read(folder, "config.json")?,
        generation: read(folder, "generation_config.json")?,
        tokenizer: read(folder, "tokenizer.json")?,
        tokenizer_config: read(folder, "tokenizer_config.json")?,
        genai: read(folder, GENAI_NAME)?,
    };
    files.roles()?;
    files.lengths()?;
    for path in graphs {
        let model = plansmith_onnx::load(&folder.join(path))?;
        files.graph(path, &model)?;
    }
    Ok(())
}

fn read<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, Error> {
    let path = folder.join(name);
    if !plansmith_files::is_file(&path) {
        return Ok(None);
    }
    let text = plansmith_files::read(&path)?;
    parse_json(&text).map(Some).map_err(|error| Error::Bundle { path, problem: format!("cannot be read: {error}") })
}

impl Files<'_> {
    fn expect<T: PartialEq + std::fmt::Debug>(&self, name: &str, key: &str, found: T, wanted: T, whose: &str) -> Result<(), Error> {
        if found == wanted {
            return Ok(());
        }
        let problem = format!("says `{key}` {found:?}; {whose} says {wanted:?}");
        Err(Error::Bundle { path: self.folder.join(name), problem })
    }

    /// Special tokens are what generation_config.json says, else config.json.
    fn roles(&self) -> Result<(), Error> {
        let roles = Roles::of(self.generation.as_ref(), self.config.as_ref());
        let whose = if self.generation.is_some() { "generation_config.json" } else { "config.json" };
        let set = |ids: &[u64]| ids.iter().copied().collect::<BTreeSet<u64>>();
        if let Some(config) = &self.config {
            for (key, wanted) in roles.entries() {
                let stated = config.get(key).filter(|value| !value.is_null());
                if let Some(stated) = stated {
                    self.expect("config.json", key, set(&ids(Some(stated))), set(&ids(Some(&wanted))), whose)?;
                }
            }
        }
        if let Some(GenaiConfig { model, .. }) = &self.genai {
            self.expect(GENAI_NAME, "bos_token_id", model.bos_token_id, roles.bos, whose)?;
            self.expect(GENAI_NAME, "eos_token_id", set(&ids(model.eos_token_id.as_ref())), set(&roles.eos), whose)?;
            self.expect(GENAI_NAME, "pad_token_id", model.pad_token_id, roles.pad, whose)?;
        }
        let (Some(tokenizer), Some(config)) = (&self.tokenizer, &self.tokenizer_config) else { return Ok(()) };
        let id = |key: &str| text_of(config.get(key)).and_then(|token| id_of(tokenizer, token));
        if let (Some(found), Some(wanted)) = (id("pad_token"), roles.pad) {
            self.expect("tokenizer_config.json", "pad_token", found, wanted, whose)?;
        }
        if let Some(found) = id("eos_token").filter(|found| !roles.eos.is_empty() && !roles.eos.contains(found) && !names_eos_in(config)) {
            let problem = format!("says `eos_token` is {found}; {whose} says {:?}", roles.eos);
            return Err(Error::Bundle { path: self.folder.join("tokenizer_config.json"), problem });
        }
        Ok(())
    }

    fn lengths(&self) -> Result<(), Error> {
        let Some(genai) = &self.genai else { return Ok(()) };
        let length = genai.model.context_length;
        self.expect(GENAI_NAME, "search.max_length", genai.search.max_length, length, "`model.context_length`")?;
        if let Some(found) = self.tokenizer_config.as_ref().and_then(|config| config.get("model_max_length")?.as_f64()) {
            self.expect("tokenizer_config.json", "model_max_length", found, length as f64, GENAI_NAME)?;
        }
        Ok(())
    }

    fn graph(&self, path: &str, model: &ModelProto) -> Result<(), Error> {
        let Some(graph) = &model.graph else { return Ok(()) };
        let input = |name: &str| graph.input.iter().find(|input| input.name() == name);
        let Some((cache, cache_dims)) = input("past_key_values.0.key").and_then(tensor) else { return Ok(()) };
        let mut data: Vec<String> = Vec::new();
        for tensor in plansmith_onnx::tensors(model) {
            let external = ExternalData::of(tensor)?.map(|external| external.location);
            data.extend(external.filter(|location| !data.contains(location)));
        }
        self.javascript(path, cache, data)?;
        let Some(genai) = &self.genai else { return Ok(()) };
        let property = |key: &str| {
            let found = model.metadata_props.iter().find(|entry| entry.key() == format!("plansmith.{key}"));
            found.and_then(|entry| entry.value().parse::<u64>().ok())
        };
        let length = genai.model.context_length;
        for (key, limit) in ["max_positions", "max_length", "switch_length"].map(|key| (key, property(key))) {
            if let Some(limit) = limit.filter(|&limit| length > limit) {
                let problem = format!("says `context_length` {length}; {path} says `{key}` {limit}");
                return Err(Error::Bundle { path: self.folder.join(GENAI_NAME), problem });
            }
        }
        let decoder = &genai.model.decoder;
        let layers =
            graph.input.iter().filter(|input| input.name().starts_with("past_key_values.") && input.name().ends_with(".key")).count();
        self.expect(GENAI_NAME, "num_hidden_layers", decoder.num_hidden_layers, layers as u64, path)?;
        self.expect(GENAI_NAME, "num_key_value_heads", Some(decoder.num_key_value_heads), cache_dims.get(1).copied().flatten(), path)?;
        self.expect(GENAI_NAME, "head_size", Some(decoder.head_size), cache_dims.get(3).copied().flatten(), path)?;
        let logits = graph.output.iter().find(|output| output.name() == "logits").and_then(tensor);
        if let Some(vocab) = logits.and_then(|(_, dims)| dims.last().copied().flatten()) {
            self.expect(GENAI_NAME, "vocab_size", genai.model.vocab_size, vocab, path)?;
        }
        if decoder.filename == path && genai.search.past_present_share_buffer {
            self.expect(GENAI_NAME, "past_present_share_buffer", true, shares_buffer(graph), path)?;
        }
        Ok(())
    }

    /// What config.json tells transformers.js of this graph's cache and of its files.
    fn javascript(&self, path: &str, cache: DType, data: Vec<String>) -> Result<(), Error> {
        let variant = super::Variant { file: path.to_owned(), cache: plansmith_lowering::Float::Fp32, shares_buffer: false, data };
        let suffix = variant.suffix();
        let own = self.config.as_ref().and_then(|config| config.get("transformers.js_config"));
        if let (Some(_), Some(own)) = (suffix, own) {
            let stated = own.get("use_external_data_format").map_or(0, |value| files_said(value, path));
            let wanted = variant.fetched_files().unwrap_or_default() as u64;
            self.expect("config.json", "use_external_data_format", stated, wanted, path)?;
        }
        let stated = own.and_then(|own| own.get("kv_cache_dtype")?.get(suffix?)?.as_str());
        let found = stated.unwrap_or("float32");
        match cache {
            DType::F32 => self.expect("config.json", "kv_cache_dtype", found, "float32", path),
            DType::F16 if suffix.is_some() => self.expect("config.json", "kv_cache_dtype", found, "float16", path),
            // transformers.js has no name for other types, nor for graphs by other names.
            _ => Ok(()),
        }
    }
}

/// The number of data files that `use_external_data_format` says of a graph: one number for all, or a map by file name.
fn files_said(value: &Value, path: &str) -> u64 {
    match value {
        Value::Bool(said) => u64::from(*said),
        Value::Object(map) => path.rsplit('/').next().and_then(|name| map.get(name)).map_or(0, |value| files_said(value, path)),
        other => other.as_u64().unwrap_or_default(),
    }
}

/// Element type and dimensions, `None` where symbolic.
pub(super) fn tensor(value: &ValueInfoProto) -> Option<(DType, Vec<Option<u64>>)> {
    let Some(type_proto::Value::TensorType(tensor)) = value.r#type.as_ref()?.value.as_ref() else { return None };
    let number = |value: &Option<dimension::Value>| match value {
        Some(dimension::Value::DimValue(number)) => u64::try_from(*number).ok(),
        _ => None,
    };
    let dims = tensor.shape.as_ref()?.dim.iter().map(|dim| number(&dim.value)).collect();
    Some((plansmith_onnx::dtype(tensor.elem_type())?, dims))
}

/// Whether every cache that goes out is written by an operator that can write where it read.
fn shares_buffer(graph: &GraphProto) -> bool {
    let writes = |name: &str| graph.node.iter().find(|node| node.output.iter().any(|output| output == name));
    let mut presents = graph.output.iter().filter(|output| output.name().starts_with("present."));
    presents.all(|output| writes(output.name()).is_some_and(|node| node.op_type() == "GroupQueryAttention"))
}
