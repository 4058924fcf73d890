//! `genai_config.json`, as onnxruntime-genai 0.18 reads it; a key that it does not know is fatal there, and here.

use plansmith_families::DecoderSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Variant;
use super::tokens::Roles;

/// Its file name.
pub(super) const GENAI_NAME: &str = "genai_config.json";

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GenaiConfig {
    pub(super) model: Model,
    pub(super) search: Search,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Model {
    pub(super) r#type: String,
    pub(super) context_length: u64,
    pub(super) vocab_size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bos_token_id: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) eos_token_id: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pad_token_id: Option<u64>,
    pub(super) decoder: Decoder,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Decoder {
    pub(super) session_options: SessionOptions,
    /// Path of the graph within the folder.
    pub(super) filename: String,
    pub(super) head_size: u64,
    pub(super) hidden_size: u64,
    pub(super) num_attention_heads: u64,
    pub(super) num_hidden_layers: u64,
    pub(super) num_key_value_heads: u64,
    pub(super) inputs: Inputs,
    pub(super) outputs: Outputs,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionOptions {
    pub(super) log_id: String,
    pub(super) provider_options: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inputs {
    pub(super) input_ids: String,
    pub(super) attention_mask: String,
    pub(super) position_ids: String,
    pub(super) past_key_names: String,
    pub(super) past_value_names: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Outputs {
    pub(super) logits: String,
    pub(super) present_key_names: String,
    pub(super) present_value_names: String,
}

/// How text is generated where the program says nothing: as generation_config.json says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    pub(super) do_sample: bool,
    pub(super) max_length: u64,
    /// Whether keys and values are written where they were read: only operators that know of it allow that.
    pub(super) past_present_share_buffer: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) repetition_penalty: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) top_k: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
}

/// What cannot be said in the file: it knows one shape of cache for all layers.
pub(super) fn inexpressible(spec: &DecoderSpec) -> Option<&'static str> {
    let mut shapes = spec.layers.iter().map(|layer| (layer.attention.heads, layer.attention.kv_heads, layer.attention.head_dim));
    let Some(first) = shapes.next() else { return Some("the model has no layers") };
    shapes.any(|shape| shape != first).then_some("layers have caches of different shapes, which onnxruntime-genai cannot be told")
}

/// The file for `variant`. `generation` is generation_config.json. [`inexpressible`] must have found nothing.
pub(super) fn genai_config(spec: &DecoderSpec, variant: &Variant, roles: &Roles, context_length: u64, generation: &Value) -> GenaiConfig {
    let attention = spec.layers.first().map(|layer| &layer.attention);
    let of = |part: fn(&plansmith_families::Attention) -> u64| attention.map_or(0, part);
    let number = |key: &str| generation.get(key).and_then(Value::as_f64);
    GenaiConfig {
        model: Model {
            r#type: "decoder".into(),
            context_length,
            vocab_size: spec.vocab_size,
            bos_token_id: roles.bos,
            eos_token_id: roles.eos_value(),
            pad_token_id: roles.pad,
            decoder: Decoder {
                session_options: SessionOptions { log_id: "onnxruntime-genai".into(), provider_options: Vec::new() },
                filename: variant.file.clone(),
                head_size: of(|attention| attention.head_dim),
                hidden_size: spec.hidden_size,
                num_attention_heads: of(|attention| attention.heads),
                num_hidden_layers: spec.layers.len() as u64,
                num_key_value_heads: of(|attention| attention.kv_heads),
                inputs: Inputs {
                    input_ids: "input_ids".into(),
                    attention_mask: "attention_mask".into(),
                    position_ids: "position_ids".into(),
                    past_key_names: "past_key_values.%d.key".into(),
                    past_value_names: "past_key_values.%d.value".into(),
                },
                outputs: Outputs {
                    logits: "logits".into(),
                    present_key_names: "present.%d.key".into(),
                    present_value_names: "present.%d.value".into(),
                },
            },
        },
        search: Search {
            do_sample: generation.get("do_sample").and_then(Value::as_bool).unwrap_or(false),
            max_length: context_length,
            past_present_share_buffer: variant.shares_buffer,
            repetition_penalty: number("repetition_penalty"),
            temperature: number("temperature"),
            top_k: generation.get("top_k").and_then(Value::as_u64),
            top_p: number("top_p"),
        },
    }
}
