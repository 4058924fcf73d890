//! Configs of testdata and tensor lists that fit them.

use std::path::Path;

use plansmith_families::{DecoderSpec, Error, Frequencies, Options, Tensors, load};
use serde_json::Value;

/// A JSON file of testdata.
pub(crate) fn testdata(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Names and shapes of a checkpoint's tensors.
pub(crate) type List = Vec<(String, Vec<u64>)>;

pub(crate) fn read(config: &Value, tensors: &List) -> Result<DecoderSpec, Error> {
    read_with(config, tensors, &Options::default())
}

pub(crate) fn read_with(config: &Value, tensors: &List, options: &Options) -> Result<DecoderSpec, Error> {
    let tensors: Tensors<'_> = tensors.iter().map(|(name, shape)| (name.as_str(), shape.as_slice())).collect();
    load(config, &tensors, options).map(|loaded| loaded.spec)
}

/// Reads a config alone: against the tensors that it implies, which the refusals of others tell one by one.
pub(crate) fn read_alone(config: &Value, options: &Options) -> Result<DecoderSpec, Error> {
    let mut tensors = List::new();
    loop {
        match read_with(config, &tensors, options) {
            Err(Error::MissingTensor { name, .. }) => tensors.push((name, vec![7, 7, 7, 7])),
            Err(Error::WrongShape { name, wanted, .. }) => {
                tensors.iter_mut().filter(|(found, _)| *found == name).for_each(|(_, shape)| shape.clone_from(&wanted));
            }
            other => return other,
        }
    }
}

/// The tensors of a one-layer model with the sizes that `config` states, without biases but where the family has them by itself.
pub(crate) fn one_layer(config: &Value) -> List {
    let size = |key: &str| config[key].as_u64().unwrap();
    let (hidden, intermediate, vocab) = (size("hidden_size"), size("intermediate_size"), size("vocab_size"));
    let (queries, keys) = (size("num_attention_heads") * size("head_dim"), size("num_key_value_heads") * size("head_dim"));
    let family = config["model_type"].as_str().unwrap();
    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), vec![vocab, hidden]),
        ("model.norm.weight".to_owned(), vec![hidden]),
        ("lm_head.weight".to_owned(), vec![vocab, hidden]),
    ];
    let mut layer = |name: &str, shape: &[u64]| tensors.push((format!("model.layers.0.{name}"), shape.to_vec()));
    layer("input_layernorm.weight", &[hidden]);
    layer("post_attention_layernorm.weight", &[hidden]);
    for (part, rows) in [("q_proj", queries), ("k_proj", keys), ("v_proj", keys)] {
        layer(&format!("self_attn.{part}.weight"), &[rows, hidden]);
        if family == "qwen2" {
            layer(&format!("self_attn.{part}.bias"), &[rows]);
        }
    }
    layer("self_attn.o_proj.weight", &[hidden, queries]);
    layer("mlp.gate_proj.weight", &[intermediate, hidden]);
    layer("mlp.up_proj.weight", &[intermediate, hidden]);
    layer("mlp.down_proj.weight", &[hidden, intermediate]);
    if family == "qwen3" {
        layer("self_attn.q_norm.weight", &[size("head_dim")]);
        layer("self_attn.k_norm.weight", &[size("head_dim")]);
    }
    tensors
}

/// A small one-layer config of `family` with `more` keys.
pub(crate) fn small(family: &str, more: Value) -> Value {
    let mut config = serde_json::json!({
        "model_type": family, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "num_hidden_layers": 1, "vocab_size": 32, "max_position_embeddings": 512,
    });
    let map = config.as_object_mut().unwrap();
    map.extend(more.as_object().unwrap().clone());
    config
}

/// Distance in representable numbers.
pub(crate) fn ulps(left: f32, right: f32) -> u32 {
    left.to_bits().abs_diff(right.to_bits())
}

/// The frequencies of every length, or those up to the switch.
pub(crate) fn short(frequencies: &Frequencies) -> &[f32] {
    match frequencies {
        Frequencies::Fixed(all) => all,
        Frequencies::Switched { short, .. } => short,
    }
}
