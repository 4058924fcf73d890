//! What is refused, in whole sentences.

use crate::support::{List, one_layer, read, read_alone, read_with, small};
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
    assert_eq!(hint, "a look-alike is never assumed; supported names like it: `qwen3`, `qwen2`; `plansmith families` lists all");
    let (_, hint) = told("zzz", json!({}));
    assert_eq!(hint, "`plansmith families` lists what is supported");
}

/// Mixtures of experts, recurrent models and hybrids have classes of their own, however much their configs look like a family's.
#[test]
fn models_of_other_kinds_are_refused_by_name() {
    for model_type in [
        "mixtral",
        "qwen2_moe",
        "qwen3_moe",
        "deepseek_v3",
        "gpt_oss",
        "olmoe",
        "phimoe",
        "granitemoe",
        "ernie4_5_moe",
        "llama4_text",
        "mamba",
        "mamba2",
        "rwkv",
        "recurrent_gemma",
        "jamba",
        "zamba2",
        "bamba",
        "falcon_h1",
        "falcon_mamba",
        "lfm2",
        "qwen3_next",
        "granitemoehybrid",
        "nemotron_h",
        "minimax",
        "gemma3n_text",
        "t5",
        "bert",
    ] {
        let (text, hint) = told(model_type, json!({}));
        assert_eq!(text, format!("model_type `{model_type}` is not supported"));
        assert!(hint.contains("`plansmith families`") && hint.len() < 140, "{hint}");
    }
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
    let options = Options { allow_unknown_config: vec!["rope_scaling.finetuned".into()], ..Options::default() };
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
    let other = "`rope_scaling` stands beside `rope_parameters` and says something else: one of the two must go";
    refuses("llama", both, other);
    // transformers takes the base beside `rope_scaling`, or its default: the one within `rope_parameters` is lost.
    let linear = json!({ "rope_type": "linear", "factor": 2.0 });
    let lost = json!({ "rope_scaling": linear, "rope_parameters": { "rope_type": "linear", "factor": 2.0, "rope_theta": 500_000.0 } });
    refuses("llama", lost, other);
    let types = json!({ "rope_scaling": { "type": "linear", "rope_type": "yarn", "factor": 2.0 } });
    refuses("llama", types, "`rope_scaling.rope_type` is `yarn`, but `type` is `linear`");
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
        "`layer_types` names `sliding_attention`, but there is no sliding_window",
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
    let bare = bound(|tensors| {
        rename(tensors, |name| name.trim_start_matches("model.").to_owned());
        tensors.retain(|(name, _)| !name.contains("q_proj"));
    });
    assert_eq!(bare.0, "the checkpoint has no tensor `layers.0.self_attn.q_proj.weight`");
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

/// Refusal of a config alone.
fn alone(config: &Value, options: &Options) -> String {
    read_alone(config, options).unwrap_err().to_string()
}

#[track_caller]
fn refuses_alone(config: Value, text: &str) {
    assert_eq!(alone(&config, &Options::default()), format!("config.json: {text}"));
}

#[test]
fn activations() {
    let names = "gelu, gelu_10, gelu_accurate, gelu_fast, gelu_new, gelu_python, gelu_python_tanh, gelu_pytorch_tanh, hardswish, laplace, \
                 leaky_relu, linear, mish, quick_gelu, relu, relu2, relu6, sigmoid, silu, sqrtsoftplus, swish, tanh";
    refuses("llama", json!({ "hidden_act": "geglu" }), &format!("`hidden_act` is `geglu`; supported: {names}"));
    refuses("llama", json!({ "hidden_act": "prelu" }), &format!("`hidden_act` is `prelu`; supported: {names}"));
    refuses_alone(
        json!({ "model_type": "gpt2", "activation_function": "xielu" }),
        &format!("`activation_function` is `xielu`; supported: {names}"),
    );
    refuses_alone(json!({ "model_type": "openai-gpt", "afn": "tanh" }), "`afn` is `tanh`; supported: gelu, relu, silu, swish");
}

#[test]
fn unknown_rope_types_in_each_layout() {
    let types = "supported: default, dynamic, linear, llama3, longrope, yarn";
    let scaling = json!({ "type": "ntk", "factor": 2.0 });
    refuses("llama", json!({ "rope_scaling": scaling }), &format!("`rope_scaling.rope_type` is `ntk`; {types}"));
    let parameters = json!({ "rope_type": "axial", "rope_theta": 10_000.0 });
    refuses("llama", json!({ "rope_parameters": parameters }), &format!("`rope_parameters.rope_type` is `axial`; {types}"));
    let nested =
        json!({ "full_attention": { "rope_type": "ntk", "rope_theta": 10_000.0 }, "sliding_attention": { "rope_type": "default" } });
    for family in ["gemma3_text", "olmo3", "modernbert-decoder"] {
        let config = json!({ "model_type": family, "rope_parameters": nested });
        refuses_alone(config, &format!("`rope_parameters.full_attention.rope_type` is `ntk`; {types}"));
    }
    let phi3 = json!({ "model_type": "phi3", "rope_scaling": { "type": "yarn", "factor": 2.0 } });
    refuses_alone(phi3, "`rope_scaling.rope_type` is `yarn`; supported for phi3: default, longrope");
}

#[test]
fn nested_rotations_without_a_kind_of_layer() {
    let only = |kind: &str| json!({ kind: { "rope_type": "default", "rope_theta": 10_000.0 } });
    for family in ["gemma3_text", "modernbert-decoder"] {
        for (given, other) in [("sliding_attention", "full_attention"), ("full_attention", "sliding_attention")] {
            refuses_alone(
                json!({ "model_type": family, "rope_parameters": only(given) }),
                &format!("`rope_parameters.{other}` is missing"),
            );
        }
    }
    let kinds = json!(["sliding_attention"]);
    let compass = json!({
        "model_type": "cohere_compass_text", "num_hidden_layers": 1, "layer_types": kinds, "rope_parameters": only("full_attention"),
    });
    refuses_alone(compass, "`rope_parameters.sliding_attention` is missing: the class has no default");
    // One rotation for all layers does not read it.
    let (text, _) = told("llama", json!({ "rope_parameters": only("full_attention") }));
    assert!(text.starts_with("config.json: `rope_parameters.full_attention` = "), "{text}");
}

#[test]
fn rotations_beyond_their_length() {
    let dynamic = json!({ "rope_type": "dynamic", "factor": 2.0 });
    let options = |length| Options { max_length: Some(length), ..Options::default() };
    for (key, more) in [("rope_scaling", json!({ "rope_scaling": dynamic })), ("rope_parameters", json!({ "rope_parameters": dynamic }))] {
        let config = small("llama", more);
        read_with(&config, &one_layer(&config), &options(512)).unwrap();
        let error = read_with(&config, &one_layer(&config), &options(513)).unwrap_err();
        let text = format!(
            "config.json: `{key}.rope_type` is `dynamic`, whose angles change with every step beyond max_position_embeddings 512; a length \
             of 513 was asked for"
        );
        assert_eq!(error.to_string(), text);
    }
}

/// transformers rounds an odd number of rotated elements up in its tables; these classes then cut heads by the odd number, and fail.
#[test]
fn odd_rotations() {
    for family in ["phi", "stablelm", "persimmon"] {
        let config = json!({ "model_type": family, "hidden_size": 48, "num_attention_heads": 2, "num_key_value_heads": 2 });
        let parameters = json!({ "rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.3 });
        let mut config = config.as_object().unwrap().clone();
        config.retain(|key, _| family != "persimmon" || key != "num_key_value_heads");
        config.insert("rope_parameters".into(), parameters);
        let text =
            "`rope_parameters.partial_rotary_factor` is 0.3, which leaves 7 elements of a head to rotate; this class needs an even number";
        refuses_alone(config.into(), text);
    }
}

#[test]
fn longrope_lists() {
    let lists = |short: Value, long: Value| json!({ "rope_scaling": { "type": "longrope", "short_factor": short, "long_factor": long } });
    let eight = json!([1, 1, 1, 1, 1, 1, 1, 1]);
    let seven = json!([1, 1, 1, 1, 1, 1, 1]);
    refuses("llama", lists(seven.clone(), eight.clone()), "`rope_scaling.short_factor` has 7 entries; 8 pairs are rotated");
    refuses("llama", lists(eight.clone(), seven), "`rope_scaling.long_factor` has 7 entries; 8 pairs are rotated");
    let text = "`rope_scaling.long_factor` holds 0, where numbers above 0 are needed";
    refuses("llama", lists(eight.clone(), json!([1, 1, 1, 1, 1, 1, 1, 0])), text);
    refuses("llama", json!({ "rope_scaling": { "type": "longrope", "short_factor": eight } }), "`rope_scaling.long_factor` is missing");
}

#[test]
fn options_of_falcon() {
    let text = "`alibi` is true, which transformers computes otherwise in each attention back end; supported: false";
    refuses_alone(json!({ "model_type": "falcon", "alibi": true }), text);
    let text = "`parallel_attn` is false beside new_decoder_architecture; supported: true";
    refuses_alone(json!({ "model_type": "falcon", "new_decoder_architecture": true, "parallel_attn": false }), text);
    let text = "`num_kv_heads` is 8 without multi_query and new_decoder_architecture; num_attention_heads 71 is needed";
    refuses_alone(json!({ "model_type": "falcon", "multi_query": false, "num_kv_heads": 8 }), text);
}

#[test]
fn options_of_other_families() {
    let bidirectional = json!({ "model_type": "gemma3_text", "use_bidirectional_attention": true });
    refuses_alone(bidirectional, "`use_bidirectional_attention` is true; supported: attention to the past only");
    let layers = json!({ "model_type": "gpt_neo", "num_layers": 2 });
    refuses_alone(layers, "`attention_types` is missing; the class default has 24 layers, num_layers is 2");
    let aliases = json!({ "model_type": "gpt2", "n_layer": 2, "num_hidden_layers": 3 });
    refuses_alone(aliases, "`num_hidden_layers` is 3, but `n_layer` is 2");
    let odd = json!({ "model_type": "codegen", "n_embd": 4094, "n_head": 2 });
    refuses_alone(odd, "`n_embd` is 4094, no multiple of the 4 blocks of the projection");
    refuses_alone(json!({ "model_type": "emu3" }), "`text_config` is missing");
    let endless = json!({ "model_type": "gpt_neo", "num_layers": 2, "attention_types": vec![json!([["global"], 4096]); 1000] });
    refuses_alone(endless, "`attention_types` is no list of pairs, names of layers and how often, of up to 4096 layers");
    let nested = json!({ "model_type": "emu3", "text_config": { "hidden_size": 1_u64 << 31 } });
    refuses_alone(nested, "`text_config.hidden_size` is 2147483648, more than any tensor's dimension; the largest is 65536");
    let turned = json!({ "model_type": "glm", "rope_parameters": { "rope_theta": 1e4, "partial_rotary_factor": 1e18 } });
    refuses_alone(turned, "`rope_parameters.head_dim` is 128, of which 1000000000000000000 is to be rotated; rotation needs 2 to head_dim");
}
