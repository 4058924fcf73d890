//! Two tiny models, end to end.

use plansmith_checkpoint::gguf::Gguf;
use plansmith_tensor::DType;
use serde_json::json;

use crate::{oracle, testdata};

#[test]
fn byte_level_model_with_llama3_rope() {
    let parent = tempfile::tempdir().unwrap();
    let expected = oracle::read(&testdata("tiny_oracle.json"));
    let folder = parent.path().join("f32");
    let imported = oracle::check(&testdata("tiny.gguf"), &folder, DType::F32, &expected);
    assert_eq!((imported.rounded, imported.tied, imported.tensors), (0, true, 20));

    let config = oracle::json(&folder.join("config.json"));
    assert_eq!(config["model_type"], "llama");
    assert_eq!(config["dtype"], "float32");
    assert_eq!(config["tie_word_embeddings"], true);
    assert_eq!(config["attention_bias"], false);
    assert_eq!(config["head_dim"], 16);
    assert_eq!(config["num_key_value_heads"], 2);
    assert_eq!(config["rms_norm_eps"], f64::from(1e-5f32));
    // What `make_gguf_cases.py` computed the divisors from.
    let rope = json!({
        "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    });
    assert_eq!(config["rope_parameters"], rope);
    // The same for transformers 4, which reads no `rope_parameters`.
    assert_eq!(config["rope_theta"], 500000.0);
    let mut scaling = rope;
    scaling.as_object_mut().unwrap().remove("rope_theta");
    assert_eq!(config["rope_scaling"], scaling);
    let generation = oracle::json(&folder.join("generation_config.json"));
    assert_eq!(generation, json!({ "bos_token_id": 270, "eos_token_id": [271, 272], "pad_token_id": 271 }));

    let folder = parent.path().join("bf16");
    let imported = oracle::check(&testdata("tiny.gguf"), &folder, DType::BF16, &expected);
    assert!(imported.rounded > 0 && imported.rounded < imported.parameters, "{imported:?}");
    assert_eq!(oracle::json(&folder.join("config.json"))["dtype"], "bfloat16");
}

#[test]
fn sentencepiece_model_with_biases_and_its_own_head() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("spm");
    let expected = oracle::read(&testdata("tiny_spm_oracle.json"));
    let imported = oracle::check(&testdata("tiny_spm.gguf"), &folder, DType::F32, &expected);
    assert!(!imported.tied && !imported.chat_template);
    let config = oracle::json(&folder.join("config.json"));
    assert_eq!(config["tie_word_embeddings"], false);
    assert_eq!(config["attention_bias"], true);
    assert_eq!(config["rope_parameters"], json!({ "rope_type": "default", "rope_theta": 10000.0 }));
    assert_eq!((&config["rope_theta"], &config["rope_scaling"]), (&json!(10000.0), &json!(null)));
    assert_eq!(config["pad_token_id"], json!(null));
}

#[test]
fn the_header_lists_the_tensors() {
    let gguf = Gguf::open(&testdata("tiny.gguf")).unwrap();
    assert_eq!((gguf.version, gguf.tensors.len()), (3, 21));
    let tensor = &gguf.tensors["blk.1.attn_k.weight"];
    // `python -m gguf.scripts.gguf_dump`: 2048 elements, 64 × 32.
    assert_eq!(tensor.shape, [32, 64]);
    assert_eq!(tensor.bytes, 2048 / tensor.ggml_type.block_elements() as u64 * tensor.ggml_type.block_bytes() as u64);
    assert_eq!(gguf.metadata["llama.context_length"].to_string(), "131072");
}
