//! What is refused, in whole sentences.

use crate::support::{List, one_layer, read, read_with, small};
use plansmith_families::{Error, Options};
use serde_json::{Value, json};

fn refusal(config: &Value) -> Error {
    read(config, &one_layer(&small(config["model_type"].as_str().unwrap_or("llama"), json!({})))).unwrap_err()
}

/// Text and hint of the refusal of a small config of `family` with `more` keys.
fn told(family: &str, more: Value) -> (String, String) {
    let error = refusal(&small(family, more));
    (error.to_string(), error.hint().unwrap())
}

const FIX: &str = "correct config.json, or re-save the checkpoint with transformers";

/// A refusal of a key, whose hint is always the same.
#[track_caller]
fn refuses(family: &str, more: Value, text: &str) {
    assert_eq!(told(family, more), (format!("config.json: {text}"), FIX.to_owned()));
}

#[test]
fn what_is_no_config() {
    let hint = "give the folder of a checkpoint as transformers saves it: config.json beside *.safetensors";
    for (config, text) in [(json!([]), "config.json is not a JSON object"), (json!({}), "config.json has no `model_type`")] {
        let error = refusal(&config);
        assert_eq!((error.to_string(), error.hint().unwrap()), (text.to_owned(), hint.to_owned()));
    }
}

#[test]
fn an_unknown_family_names_the_nearest() {
    let (text, hint) = told("qwen3_moe", json!({}));
    assert_eq!(text, "model_type `qwen3_moe` is not supported");
    assert_eq!(hint, "the nearest supported model_type is `qwen3`, but a look-alike is never assumed; supported: llama, qwen2, qwen3");
}

#[test]
fn another_class_of_a_known_family() {
    let (text, hint) = told("llama", json!({ "architectures": ["LlamaForSequenceClassification"] }));
    assert_eq!(text, "architecture `LlamaForSequenceClassification` of model_type `llama` is not supported (supported: LlamaForCausalLM)");
    assert_eq!(hint, "export a checkpoint saved from LlamaForCausalLM");
}

#[test]
fn keys_that_nobody_reads() {
    assert_eq!(
        told("llama", json!({ "attention_biases": true })),
        (
            "config.json: `attention_biases` = true is not understood for model_type `llama` and may change what the model computes".into(),
            "did you mean `attention_bias`? If `attention_biases` does not matter, pass --allow-unknown-config attention_biases".into(),
        )
    );
    assert_eq!(
        told("qwen3", json!({ "logits_soft_cap": 30.0 })),
        (
            "config.json: `logits_soft_cap` = 30.0 is not understood for model_type `qwen3` and may change what the model computes".into(),
            "if `logits_soft_cap` does not matter to inference, pass --allow-unknown-config logits_soft_cap: the manifest records it"
                .into(),
        )
    );
    let nested = told("llama", json!({ "rope_scaling": { "rope_type": "linear", "factor": 2.0, "finetuned": true } }));
    let text =
        "config.json: `rope_scaling.finetuned` = true is not understood for model_type `llama` and may change what the model computes";
    assert_eq!(nested.0, text);
    let options = Options { allow_unknown_config: vec!["rope_scaling.finetuned".into()] };
    let allowed = small("llama", json!({ "rope_scaling": { "rope_type": "linear", "factor": 2.0, "finetuned": true } }));
    read_with(&allowed, &one_layer(&allowed), &options).unwrap();
}

/// Keys of the base class of transformers 5.24 and of its modelling code that do change what is computed.
#[test]
fn keys_that_change_the_mathematics_are_never_passed_over() {
    for (key, value) in [
        ("per_layer_config", json!({ "0": { "num_attention_heads": 2 } })),
        ("is_causal", json!(false)),
        ("is_encoder_decoder", json!(true)),
        ("add_cross_attention", json!(true)),
        ("use_mrope", json!(true)),
        ("rope_interleaved", json!(true)),
        ("pruned_heads", json!({ "0": [1] })),
        ("original_max_position_embeddings", json!(128)),
        ("auto_map", json!({ "AutoModelForCausalLM": "modeling_other.OtherForCausalLM" })),
        ("hidden_activation", json!("gelu")),
        ("attn_logit_softcapping", json!(50.0)),
        ("final_logit_softcapping", json!(30.0)),
        ("logits_scaling", json!(8.0)),
        ("residual_multiplier", json!(0.22)),
        ("attention_multiplier", json!(0.01)),
        ("embedding_multiplier", json!(12.0)),
        ("no_rope_layers", json!([0])),
        ("attention_chunk_size", json!(8192)),
    ] {
        let error = refusal(&small("llama", json!({ key: value })));
        assert!(matches!(&error, Error::UnknownKey { key: found, .. } if found == key), "{key}: {error}");
    }
    refuses("llama", json!({ "hidden_act": "gelu" }), "`hidden_act` is `gelu`; supported for this model_type: `silu`");
}

/// transformers does not look at it in an unscaled rotation of whole heads, and fails at it in a scaled one.
#[test]
fn a_partial_rotation_of_whole_heads() {
    let config = small("llama", json!({ "partial_rotary_factor": 0.5 }));
    assert_eq!(read(&config, &one_layer(&config)).unwrap().ropes[0].pairs(), 8);
    refuses(
        "llama",
        json!({ "partial_rotary_factor": 0.5, "rope_scaling": { "rope_type": "linear", "factor": 2.0 } }),
        "`partial_rotary_factor` is 0.5, but this class can only rotate whole heads",
    );
}

/// Keys of published checkpoints that inference does not depend on.
#[test]
fn keys_of_published_configs_are_passed_over() {
    for (family, keys) in [
        (
            "llama",
            json!({
                "_name_or_path": "x", "architectures": ["LlamaForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 128_000,
                "eos_token_id": [128_001, 128_008], "initializer_range": 0.02, "pretraining_tp": 1, "torch_dtype": "bfloat16",
                "transformers_version": "4.43.0.dev0", "use_cache": true, "is_llama_config": true, "rope_interleaved": false,
                "rope_scaling": null, "pad_token_id": 2, "unsloth_fixed": true, "unsloth_version": "2025.1", "output_attentions": false,
                "transformers.js_config": { "dtype": "q4" }, "max_sequence_length": 2048, "_flash_attn_2_enabled": true,
                "gradient_checkpointing": false, "auto_map": { "AutoConfig": "configuration_x.XConfig" }, "hidden_act": "silu",
            }),
        ),
        (
            "qwen2",
            json!({
                "architectures": ["Qwen2ForCausalLM"], "use_mrope": false, "use_sliding_window": false, "sliding_window": 4096,
                "max_window_layers": 21, "tie_word_embeddings": false, "bos_token_id": 151_646, "eos_token_id": 151_643,
            }),
        ),
        (
            "qwen3",
            json!({
                "architectures": ["Qwen3ForCausalLM"], "sliding_window": null, "max_window_layers": 28, "use_sliding_window": false,
                "attention_bias": false, "rope_scaling": null, "rope_theta": 1_000_000, "dtype": "bfloat16",
                "tie_last_hidden_states": false, "chunk_size_feed_forward": 0, "is_encoder_decoder": false, "problem_type": null,
            }),
        ),
    ] {
        let config = small(family, keys);
        read(&config, &one_layer(&config)).unwrap();
    }
}

#[test]
fn values_of_another_type_or_out_of_range() {
    refuses("llama", json!({ "hidden_size": "64" }), r#"`hidden_size` is "64", where an integer above 0 is needed"#);
    refuses("llama", json!({ "vocab_size": 0 }), "`vocab_size` is 0, where an integer above 0 is needed");
    refuses("llama", json!({ "attention_bias": 1 }), "`attention_bias` is 1, where true or false is needed");
    refuses("llama", json!({ "hidden_size": 66 }), "`hidden_size` is 66, no multiple of num_attention_heads 4");
    refuses("llama", json!({ "num_key_value_heads": 3 }), "`num_key_value_heads` is 3, which does not divide num_attention_heads 4");
    refuses("qwen3", json!({ "head_dim": 15 }), "`head_dim` is 15; rotation needs an even one");
    refuses("llama", json!({ "num_hidden_layers": 5000 }), "`num_hidden_layers` is 5000, more than 4096");
    refuses("llama", json!({ "rms_norm_eps": -1e-6 }), "`rms_norm_eps` is -0.000001, below 0");
}

#[test]
fn null_is_a_value() {
    refuses("llama", json!({ "hidden_size": null }), "`hidden_size` is null, which transformers refuses here");
    refuses("qwen3", json!({ "head_dim": null }), "`head_dim` is null, which transformers refuses here");
    refuses("llama", json!({ "attention_bias": null }), "`attention_bias` is null, which transformers refuses here");
    refuses("llama", json!({ "rope_theta": null }), "`rope_theta` is null, which transformers refuses here");
    let original = json!({ "rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": null });
    let text = "`rope_scaling.original_max_position_embeddings` is null, which transformers refuses here";
    refuses("llama", json!({ "rope_scaling": original }), text);
    // Here null has a meaning: head_dim is hidden_size / heads, and there are as many key heads as query heads.
    let config = small("llama", json!({ "head_dim": null, "num_key_value_heads": null, "rope_parameters": null }));
    let tensors = one_layer(&small("llama", json!({ "num_key_value_heads": 4 })));
    let attention = &read(&config, &tensors).unwrap().layers[0].attention;
    assert_eq!((attention.head_dim, attention.kv_heads), (16, 4));
}

#[test]
fn rope_keys_that_contradict_or_are_not_understood() {
    let conflict = json!({ "rope_theta": 10_000.0, "rope_parameters": { "rope_type": "default", "rope_theta": 500_000.0 } });
    refuses("llama", conflict, "`rope_theta` is 10000, but `rope_parameters.rope_theta` is 500000");
    let both = json!({ "rope_scaling": { "type": "linear", "factor": 2.0 }, "rope_parameters": { "rope_type": "default" } });
    refuses("llama", both, "`rope_scaling` stands beside `rope_parameters`: one of the two must go");
    let types = json!({ "rope_scaling": { "type": "linear", "rope_type": "yarn", "factor": 2.0 } });
    refuses("llama", types, "`rope_scaling.rope_type` is `yarn`, but `type` is `linear`");
    let unknown = json!({ "rope_scaling": { "type": "dynamic", "factor": 2.0 } });
    refuses("llama", unknown, "`rope_scaling.rope_type` is `dynamic`; supported for this model_type: default, linear, llama3, yarn");
    refuses("llama", json!({ "rope_scaling": { "type": "linear" } }), "`rope_scaling.factor` is missing");
    let negative = json!({ "rope_parameters": { "rope_type": "yarn", "factor": -2.0 } });
    refuses("llama", negative, "`rope_parameters.factor` is -2; a number above 0 is needed");
    let order = json!({ "rope_scaling": { "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0 } });
    refuses("llama", order, "`rope_scaling.high_freq_factor` is 1, not above low_freq_factor 4");
    refuses("llama", json!({ "rope_theta": 1.0 }), "`rope_theta` is 1; a base above 1 is needed");
}

#[test]
fn layer_types() {
    let types = |types: Value| json!({ "layer_types": types, "use_sliding_window": true, "sliding_window": 8 });
    refuses("qwen2", types(json!(["full_attention", "full_attention"])), "`layer_types` has 2 entries; num_hidden_layers is 1");
    let text = r#"`layer_types` names "chunked_attention"; supported: full_attention, sliding_attention"#;
    refuses("qwen3", types(json!(["chunked_attention"])), text);
    refuses(
        "qwen2",
        json!({ "layer_types": ["sliding_attention"] }),
        "`layer_types` names `sliding_attention`, but use_sliding_window and sliding_window give no window",
    );
    let (text, _) = told("llama", json!({ "layer_types": ["full_attention"] }));
    assert!(text.contains("`layer_types`"), "{text}");
}

#[test]
fn quantised_weights() {
    let hint = "dequantise the checkpoint with the tool that made it and save it as bf16, fp16 or fp32".to_owned();
    let quantised = |value: Value| told("llama", json!({ "quantization_config": value }));
    let awq = "the checkpoint is quantised by `awq`, which is not implemented".to_owned();
    assert_eq!(quantised(json!({ "quant_method": "awq", "bits": 4 })), (awq, hint.clone()));
    let unnamed = "the checkpoint is quantised by `an unnamed method`, which is not implemented".to_owned();
    assert_eq!(quantised(json!({ "load_in_8bit": true })), (unnamed, hint));
}

/// Refusal of the small llama whose tensor list `edit` changed.
fn bound(edit: impl Fn(&mut List)) -> (String, String) {
    let config = small("llama", json!({}));
    let mut tensors = one_layer(&config);
    edit(&mut tensors);
    let error = read(&config, &tensors).unwrap_err();
    (error.to_string(), error.hint().unwrap())
}

fn rename(tensors: &mut List, edit: impl Fn(&str) -> String) {
    for (name, _) in tensors {
        *name = edit(name);
    }
}

#[test]
fn tensors_that_are_missing() {
    let gone = bound(|tensors| tensors.retain(|(name, _)| !name.contains("k_proj")));
    assert_eq!(gone.0, "the checkpoint has no tensor `model.layers.0.self_attn.k_proj.weight`");
    let head = bound(|tensors| tensors.retain(|(name, _)| name != "lm_head.weight"));
    assert_eq!(head.0, "the checkpoint has no tensor `lm_head.weight`");
    let prefixed = bound(|tensors| rename(tensors, |name| format!("language_model.{name}")));
    assert_eq!(
        prefixed,
        (
            "the checkpoint has no tensor `model.embed_tokens.weight`".into(),
            "the nearest stored name is `language_model.model.embed_tokens.weight`; re-save the checkpoint with transformers if a prefix \
             differs"
                .into(),
        )
    );
    let nothing = bound(|tensors| tensors.clear());
    assert_eq!(nothing.1, "the checkpoint is incomplete: fetch it again");
}

#[test]
fn tensors_of_another_shape() {
    let set = |shape: Vec<u64>| {
        bound(move |tensors| {
            tensors.iter_mut().filter(|(name, _)| name.contains("k_proj")).for_each(|(_, stored)| stored.clone_from(&shape));
        })
    };
    assert_eq!(
        set(vec![64, 64]),
        (
            "cannot bind weight `model.layers.0.self_attn.k_proj.weight`: its shape is [64, 64]; config.json implies [32, 64] \
             (num_key_value_heads 2 × head_dim 16 by hidden_size 64)"
                .into(),
            "config.json belongs to another checkpoint, or a size in it was edited".into(),
        )
    );
    assert_eq!(set(vec![64, 32]).1, "the stored matrix is transposed: this family stores [out, in]");
}

#[test]
fn tensors_that_nobody_reads() {
    let add = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        bound(move |tensors| tensors.extend(names.iter().map(|name| (name.clone(), vec![64]))))
    };
    let (text, hint) = add(&["model.layers.0.self_attn.q_proj.bias"]);
    assert_eq!(text, "nothing consumes tensor `model.layers.0.self_attn.q_proj.bias`");
    assert_eq!(
        hint,
        "config.json does not describe `model.layers.0.self_attn.q_proj.bias`: check model_type and num_hidden_layers, or remove the tensor"
    );
    let several = add(&["model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.gate_proj.weight", "zero"]);
    assert_eq!(several.0, "nothing consumes tensor `model.layers.1.mlp.gate_proj.weight` (and 2 more)");
}
