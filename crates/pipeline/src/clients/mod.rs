//! What client programs read beside the graphs: one folder that onnxruntime-genai, Optimum and transformers.js load with no option.

mod agree;
mod edit;
mod genai;
mod tokenizer;
mod tokens;
mod triton;

use std::path::{Path, PathBuf};

use plansmith_checkpoint::parse_json;
use plansmith_lowering::{Float, Source};
use serde_json::{Map, Value, json};

pub(crate) use agree::check_clients;
use edit::edited;
use genai::{GENAI_NAME, genai_config, inexpressible};
use tokens::{Roles, context_length};
pub(crate) use triton::RTX_IN_TRITON;
pub use triton::{PlanModel, served_name, triton_config, triton_plans};

use crate::Error;

/// What determines the files' bytes beside the source and the variants: changed whenever they are written otherwise.
pub(crate) const CLIENTS_VERSION: &[u8] = b"clients 1";

/// A graph that clients can load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// Path within the folder: `onnx/model.onnx`.
    pub file: String,
    /// What its cache is.
    pub cache: Float,
    /// Whether it may write keys and values where it read them.
    pub shares_buffer: bool,
    /// Bare names of its data files.
    pub data: Vec<String>,
}

/// The number of `data` files where their names are those that transformers.js makes from a graph's: `model.onnx_data`,
/// `model.onnx_data_1`, …
fn fetched_files(graph: &str, data: &[String]) -> Option<usize> {
    let made = |index: usize| if index == 0 { format!("{graph}_data") } else { format!("{graph}_data_{index}") };
    let all = !data.is_empty() && (0..data.len()).all(|index| data.contains(&made(index)));
    all.then_some(data.len())
}

/// The files for the root of the folder.
#[derive(Debug, Default)]
pub struct Sidecars {
    /// Bare names and bytes.
    pub files: Vec<(String, Vec<u8>)>,
    /// What could not be written, and why.
    pub notes: Vec<String>,
}

impl Variant {
    /// How many data files transformers.js is to fetch: `None` where they are not called after the graph, so that it cannot.
    fn fetched_files(&self) -> Option<usize> {
        fetched_files(self.file.strip_prefix("onnx/")?, &self.data)
    }

    /// What transformers.js calls it: `model_fp16.onnx` is `fp16`, and `model.onnx` is `fp32` whatever it holds.
    fn suffix(&self) -> Option<&'static str> {
        const NAMES: [(&str, &str); 5] = [
            ("model.onnx", "fp32"),
            ("model_fp16.onnx", "fp16"),
            ("model_quantized.onnx", "q8"),
            ("model_q4.onnx", "q4"),
            ("model_q4f16.onnx", "q4f16"),
        ];
        let name = self.file.strip_prefix("onnx/")?;
        NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, suffix)| suffix)
    }
}

/// Writes nothing: the files that belong beside `variants` of `source`. `companions` are the source's own, taken over as they are but
/// for what a client would stumble over.
///
/// # Errors
/// One of them cannot be read, or is no JSON.
pub fn sidecars(source: &Source, companions: &[PathBuf], variants: &[Variant]) -> Result<Sidecars, Error> {
    let mut found = Sidecars::default();
    for path in companions {
        found.files.push((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), plansmith_files::read(path)?));
    }
    let folder = source.checkpoint.dir();
    let config = found.json(folder, "config.json")?.unwrap_or_else(|| json!({}));
    let stated = found.json(folder, "generation_config.json")?;
    let roles = Roles::of(stated.as_ref(), Some(&config));
    let generation = stated.unwrap_or_else(|| json!({}));
    let length = context_length(source);

    let absent: Vec<_> = roles.entries().into_iter().filter(|(key, _)| generation.get(key).is_none_or(Value::is_null)).collect();
    if !absent.is_empty() || found.get("generation_config.json").is_some() {
        found.change("generation_config.json", absent);
    }
    // Where the config says nothing of a role, nothing reads it there.
    let stated = |key: &str| config.get(key).is_some_and(|value| !value.is_null());
    let mut changes: Vec<_> = roles.entries().into_iter().filter(|(key, _)| stated(key)).collect();
    changes.extend(for_javascript(&config, variants));
    found.change("config.json", changes);

    let tokenizer = found.json(folder, "tokenizer.json")?;
    if let Some(tokenizer) = &tokenizer {
        let own = found.json(folder, "tokenizer_config.json")?.unwrap_or_else(|| json!({}));
        let template = found.get("chat_template.jinja").map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let changes = tokenizer::changes(&own, tokenizer, template.as_deref(), &roles, length);
        found.change("tokenizer_config.json", changes);
        if template.is_none()
            && let Some(template) = tokenizer::template_of(&own)
        {
            found.files.push(("chat_template.jinja".into(), template.into_bytes()));
        }
    } else {
        found.notes.push("there is no tokenizer.json: clients can be given token ids only".into());
    }
    // The graph whose buffer can be shared is the faster one there.
    let Some(variant) = variants.iter().find(|variant| variant.shares_buffer).or(variants.first()) else { return Ok(found.sorted()) };
    match inexpressible(&source.loaded.spec) {
        Some(problem) => found.notes.push(format!("{GENAI_NAME} is not written: {problem}")),
        None => {
            let genai = genai_config(&source.loaded.spec, variant, &roles, length, &generation);
            let text = serde_json::to_string_pretty(&genai);
            let text = text.map_err(|error| Error::Bundle { path: GENAI_NAME.into(), problem: error.to_string() })?;
            found.files.push((GENAI_NAME.into(), format!("{text}\n").into_bytes()));
        }
    }
    Ok(found.sorted())
}

/// Which variant a browser takes unasked, and what caches are; transformers.js 3 cannot see that in a graph.
fn for_javascript(config: &Value, variants: &[Variant]) -> Option<(&'static str, Value)> {
    const KEY: &str = "transformers.js_config";
    let named: Vec<(&str, &Variant)> = variants.iter().filter_map(|variant| Some((variant.suffix()?, variant))).collect();
    let default = named.iter().find(|(suffix, _)| *suffix == "fp32").or(named.first())?;
    let mut value = config.get(KEY).cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
    value["dtype"] = json!(default.0);
    let fetched = |&(_, variant): &(_, &Variant)| Some((variant.file.strip_prefix("onnx/")?.to_owned(), json!(variant.fetched_files()?)));
    let fetched: Map<String, Value> = named.iter().filter_map(fetched).collect();
    if fetched.len() == named.len() && fetched.values().all(|count| *count == json!(1)) {
        value["use_external_data_format"] = json!(true);
    } else if !fetched.is_empty() {
        value["use_external_data_format"] = Value::Object(fetched);
    }
    let narrow = named.iter().filter(|(_, variant)| variant.cache == Float::Fp16).map(|&(suffix, _)| (suffix.to_owned(), json!("float16")));
    let narrow: Map<String, Value> = narrow.collect();
    if !narrow.is_empty() {
        value["kv_cache_dtype"] = Value::Object(narrow);
    }
    Some((KEY, value))
}

impl Sidecars {
    fn get(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|(found, _)| found == name).map(|(_, bytes)| bytes.as_slice())
    }

    fn json(&self, folder: &Path, name: &str) -> Result<Option<Value>, Error> {
        let Some(bytes) = self.get(name) else { return Ok(None) };
        let bad = |problem: String| Error::Bundle { path: folder.join(name), problem };
        let value: Value = parse_json(bytes).map_err(|error| bad(format!("is no JSON: {error}")))?;
        if value.is_object() { Ok(Some(value)) } else { Err(bad("is no JSON object".into())) }
    }

    /// Sets keys of a file, which begins empty where it is not there.
    fn change(&mut self, name: &str, changes: Vec<(&str, impl Into<Option<Value>>)>) {
        let changes: Vec<(&str, Option<Value>)> = changes.into_iter().map(|(key, value)| (key, value.into())).collect();
        let text = self.get(name).map_or_else(|| "{}".to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned());
        let bytes = edited(&text, &changes).into_bytes();
        self.files.retain(|(found, _)| found != name);
        self.files.push((name.to_owned(), bytes));
    }

    fn sorted(mut self) -> Self {
        self.files.sort();
        self
    }
}
