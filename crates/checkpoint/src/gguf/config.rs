//! config.json and generation_config.json, laid out as transformers 5 writes them.

use serde::Serialize;

use super::model::Model;
use super::rope::{Rope, Scaling};
use super::tokenizer::{Role, Special};

/// Every key of transformers' `LlamaConfig`, and the rotation once more under the names that transformers 4 reads: without them it takes its
/// default base in silence, and with it the exporters that are built on it. Ids that the file does not state are `null`: the class would guess 1 and 2.
#[derive(Serialize)]
pub(super) struct Config<'a> {
    architectures: [&'static str; 1],
    attention_bias: bool,
    attention_dropout: f64,
    bos_token_id: Option<u32>,
    dtype: &'static str,
    eos_token_id: Option<u32>,
    head_dim: u64,
    hidden_act: &'static str,
    hidden_size: u64,
    initializer_range: f64,
    intermediate_size: u64,
    max_position_embeddings: u64,
    mlp_bias: bool,
    model_type: &'static str,
    num_attention_heads: u64,
    num_hidden_layers: u64,
    num_key_value_heads: u64,
    pad_token_id: Option<u32>,
    pretraining_tp: u64,
    rms_norm_eps: f64,
    rope_parameters: &'a Rope,
    rope_scaling: Option<Scaling>,
    rope_theta: f64,
    tie_word_embeddings: bool,
    use_cache: bool,
    vocab_size: u64,
}

impl<'a> Config<'a> {
    /// `dtype` is a torch name, `float32` for example.
    pub(super) fn new(model: &Model, rope: &'a Rope, special: &Special, dtype: &'static str) -> Self {
        Self {
            architectures: ["LlamaForCausalLM"],
            attention_bias: model.attention_bias,
            attention_dropout: 0.0,
            bos_token_id: id(&special.bos),
            dtype,
            eos_token_id: id(&special.eos),
            head_dim: model.head_dim,
            hidden_act: "silu",
            hidden_size: model.hidden,
            initializer_range: 0.02,
            intermediate_size: model.intermediate,
            max_position_embeddings: model.context,
            mlp_bias: model.mlp_bias,
            model_type: "llama",
            num_attention_heads: model.heads,
            num_hidden_layers: model.layers,
            num_key_value_heads: model.kv_heads,
            pad_token_id: id(&special.pad),
            pretraining_tp: 1,
            rms_norm_eps: model.norm_epsilon,
            rope_parameters: rope,
            rope_scaling: rope.scaling(),
            rope_theta: rope.theta(),
            tie_word_embeddings: model.tied,
            use_cache: true,
            vocab_size: model.vocab,
        }
    }
}

fn id(role: &Option<Role>) -> Option<u32> {
    role.as_ref().map(|role| role.id)
}

/// Where generation begins and stops.
#[derive(Serialize)]
pub(super) struct GenerationConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    bos_token_id: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eos_token_id: Option<Stop>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pad_token_id: Option<u32>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Stop {
    One(u32),
    Several(Vec<u32>),
}

impl GenerationConfig {
    pub(super) fn new(special: &Special) -> Self {
        let mut ids: Vec<u32> = special.eos.iter().chain(&special.stops).map(|role| role.id).collect();
        ids.dedup();
        let eos_token_id = match ids[..] {
            [] => None,
            [id] => Some(Stop::One(id)),
            _ => Some(Stop::Several(ids)),
        };
        Self { bos_token_id: id(&special.bos), eos_token_id, pad_token_id: id(&special.pad) }
    }
}
