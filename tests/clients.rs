//! What client programs read: files that agree with each other, and the programs themselves on a bundle of the demo model.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{case, copy_files, plansmith, run, text};
use plansmith_files::{Digest, write_atomic};
use plansmith_pipeline::{FileRecord, MANIFEST_NAME, Manifest};
use serde_json::{Map, Value, json};

/// A checkpoint of random weights with a tokenizer whose ids are words, two tokens that end a text, and the traps of real ones.
fn checkpoint(folder: &Path) -> PathBuf {
    let model = folder.join("model");
    copy_files(&case("llama3_rope"), &model);
    let vocab: Map<String, Value> = (0..256).map(|id| (format!("t{id}"), json!(id))).collect();
    let added = json!([{ "id": 255, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true }]);
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": { "type": "Whitespace" }, "post_processor": null, "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocab, "unk_token": "t0" },
    });
    let own = json!({
        "tokenizer_class": "TokenizersBackend", "model_max_length": 1e30, "extra_special_tokens": ["t3"], "padding_side": "right",
        "auto_map": { "AutoTokenizer": ["code.Tokenizer", null] }, "eos_token": "<end>",
    });
    std::fs::write(model.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    std::fs::write(model.join("tokenizer_config.json"), own.to_string()).unwrap();
    std::fs::write(model.join("chat_template.jinja"), "{{ messages[0].content }}").unwrap();
    std::fs::write(model.join("generation_config.json"), r#"{"eos_token_id": [255, 7], "do_sample": true, "temperature": 0.6}"#).unwrap();
    model
}

fn bundle(folder: &Path) -> PathBuf {
    checkpoint(folder);
    let pipeline = folder.join("pipeline.yaml");
    let written = "name: tiny\nsource: { checkpoint: model }\nexport: [{ id: fp32 }, { id: fp16, dtype: fp16 }]\noutput: dist\n";
    std::fs::write(&pipeline, written).unwrap();
    plansmith(&["build", text(&pipeline)]).exits(0);
    folder.join("dist")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_bundle_says_to_every_client_what_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle(folder.path());
    let tokenizer = json(&bundle.join("tokenizer_config.json"));
    let max_positions = json(&case("llama3_rope").join("config.json"))["max_position_embeddings"].clone();
    assert_eq!(
        tokenizer,
        json!({
            "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": max_positions, "additional_special_tokens": ["t3"],
            "padding_side": "left", "eos_token": "<end>", "pad_token": "t0", "bos_token": "t1",
            "model_input_names": ["input_ids", "attention_mask"], "chat_template": "{{ messages[0].content }}",
        })
    );
    let genai = json(&bundle.join("genai_config.json"));
    assert_eq!((&genai["model"]["eos_token_id"], &genai["model"]["pad_token_id"]), (&json!([255, 7]), &json!(0)));
    assert_eq!((&genai["model"]["context_length"], &genai["search"]["temperature"]), (&max_positions, &json!(0.6)));
    assert_eq!(genai["model"]["decoder"]["filename"], "onnx/model.onnx");
    let config = json(&bundle.join("config.json"));
    assert_eq!(config["transformers.js_config"], json!({ "dtype": "fp32", "kv_cache_dtype": { "fp16": "float16" } }));
    let generation = json(&bundle.join("generation_config.json"));
    assert_eq!((&generation["eos_token_id"], &generation["pad_token_id"]), (&json!([255, 7]), &json!(0)));
}

/// Replaces a file and its line of the manifest, so that only what the files say of each other can find it.
fn tamper(bundle: &Path, name: &str, change: impl FnOnce(&mut Value)) {
    let mut value = json(&bundle.join(name));
    change(&mut value);
    let bytes = value.to_string().into_bytes();
    let (mut manifest, _) = Manifest::read(bundle).unwrap();
    let record = FileRecord { bytes: bytes.len() as u64, sha256: Digest::of(&bytes) };
    manifest.files.insert(name.to_owned(), record);
    write_atomic(&bundle.join(name), &bytes).unwrap();
    let sealed = manifest.seal().unwrap();
    write_atomic(&bundle.join(MANIFEST_NAME), &sealed).unwrap();
}

#[test]
fn files_of_clients_that_contradict_each_other_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle(folder.path());
    plansmith(&["check", text(&bundle)]).exits(0);
    let all: [(&str, &[&str], Value, &str); 14] = [
        ("genai_config.json", &["model", "eos_token_id"], json!([255]), "eos_token_id"),
        ("genai_config.json", &["model", "pad_token_id"], json!(3), "pad_token_id"),
        ("genai_config.json", &["model", "context_length"], json!(64), "max_length"),
        ("genai_config.json", &["model", "vocab_size"], json!(255), "vocab_size"),
        ("genai_config.json", &["model", "decoder", "head_size"], json!(64), "head_size"),
        ("genai_config.json", &["model", "decoder", "num_key_value_heads"], json!(9), "num_key_value_heads"),
        ("genai_config.json", &["model", "decoder", "num_hidden_layers"], json!(9), "num_hidden_layers"),
        ("genai_config.json", &["search", "past_present_share_buffer"], json!(true), "past_present_share_buffer"),
        ("genai_config.json", &["model", "speed"], json!(1), "unknown field"),
        ("generation_config.json", &["pad_token_id"], json!(9), "pad_token_id"),
        ("config.json", &["transformers.js_config", "kv_cache_dtype", "fp16"], json!("float32"), "kv_cache_dtype"),
        ("config.json", &["transformers.js_config", "use_external_data_format"], json!(true), "use_external_data_format"),
        ("tokenizer_config.json", &["model_max_length"], json!(1e30), "model_max_length"),
        ("tokenizer_config.json", &["eos_token"], json!("t9"), "eos_token"),
    ];
    for (name, keys, wrong, said) in all {
        let whole = json(&bundle.join(name));
        tamper(&bundle, name, |value| *keys.iter().fold(value, |value, key| &mut value[*key]) = wrong);
        let run = plansmith(&["check", text(&bundle)]).exits(2);
        assert!(run.stderr.contains(said) && run.stderr.contains(".json"), "{name} {keys:?}: {}", run.stderr);
        tamper(&bundle, name, |value| *value = whole);
    }
}

/// Left padding, windows, caps, two rotations, part of the head, learned positions; and forms that the operator cannot compute.
const KINDS: [(&str, bool); 14] = [
    ("left_pad_batch", true),
    ("left_pad_gpt2", true),
    ("llama3_rope", true),
    ("made_qwen3_window", true),
    ("made_gemma2_caps", true),
    ("made_gemma3_text_two_ropes", true),
    ("made_phi3_longrope", true),
    ("phi3_partial_rotary", true),
    ("made_cohere2_layers", true),
    ("made_olmo2_qk_norm", true),
    ("made_llama_one_kv_head", true),
    ("made_bloom_six_heads", false),
    ("made_granite_swa_sinks", false),
    ("made_gpt_neox_rotary_pct", false),
];

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn graphs_of_onnx_runtime_s_own_attention_agree_with_transformers() {
    let of_the_last = KINDS[..3].iter().map(|&kind| (kind, "last"));
    for ((name, whole), logits) in KINDS.map(|kind| (kind, "all")).into_iter().chain(of_the_last) {
        let folder = tempfile::tempdir().unwrap();
        let source = case(name);
        let arguments = ["export", text(&source), "-o", text(folder.path()), "--dialect", "onnxruntime", "--logits", logits, "--json"];
        let exported = plansmith(&arguments).exits(0);
        let exported: Value = serde_json::from_str(&exported.stdout).unwrap();
        assert_eq!((&exported["shares_buffer"], exported["notes"] == json!([])), (&json!(whole), whole), "{name}");
        let (graph, golden) = (folder.path().join("model.onnx"), case(name).join("golden.safetensors"));
        let arguments = ["verify", text(&source), "--onnx", text(&graph), "--golden", text(&golden), "--runtime", "ort"];
        let verified = plansmith(&arguments).exits(0);
        assert!(verified.stdout.contains(" golden "), "{name} {logits}: {}", verified.stdout);
    }
}

/// A bundle of the demo model with a graph for every client, kept for the next run: a second build has nothing to do.
fn demo() -> PathBuf {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap();
    let gguf = std::env::var("PLANSMITH_DEMO_GGUF").expect("cargo xtask test sets PLANSMITH_DEMO_GGUF");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients");
    std::fs::create_dir_all(&folder).unwrap();
    if !folder.join("model/config.json").is_file() {
        plansmith(&["import", &gguf, "-o", text(&folder.join("model"))]).exits(0);
    }
    std::fs::write(folder.join("prompts.jsonl"), "{\"text\": \"The capital of France is\"}\n").unwrap();
    let pipeline = folder.join("pipeline.yaml");
    let written = "name: clients\nsource: { checkpoint: model }\nexport:\n  - { id: portable }\n  - { id: ort, dialect: onnxruntime }\n\
                   verify: { runtimes: [ort], prompts: prompts.jsonl }\noutput: dist\n";
    std::fs::write(&pipeline, written).unwrap();
    plansmith(&["build", text(&pipeline)]).exits(0);
    folder.join("dist")
}

fn greedy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/clients/greedy.json")
}

/// Runs a script of tools/clients on `folder`, and holds what it prints to the tokens of transformers.
fn says_the_same(program: &str, script: &str, folder: &Path, more: &[&str]) -> Value {
    let program = std::env::var_os(program).unwrap_or_else(|| panic!("cargo xtask test sets {program}"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/clients").join(script);
    let said = run(Command::new(program).arg(&script).arg(folder).arg(greedy()).args(more).env("HF_HUB_OFFLINE", "1")).exits(0);
    let said: Value = serde_json::from_str(said.stdout.lines().last().unwrap()).unwrap();
    let wanted: Vec<Value> = json(&greedy())["cases"].as_array().unwrap().iter().map(|case| case["tokens"].clone()).collect();
    assert_eq!((&said["single"], &said["batch"]), (&json!(wanted), &json!(wanted)), "{script:?} on {folder:?}");
    assert_eq!(said["pad"], 2);
    said
}

#[test]
#[ignore = "needs the demo GGUF, ONNX Runtime and the Python clients: run by cargo xtask test"]
fn genai_says_what_transformers_says() {
    let bundle = demo();
    let genai = json(&bundle.join("genai_config.json"));
    assert_eq!(
        (&genai["search"]["past_present_share_buffer"], &genai["model"]["decoder"]["filename"]),
        (&json!(true), &json!("onnx/model_ort.onnx"))
    );
    says_the_same("PLANSMITH_GENAI_PYTHON", "greedy_genai.py", &bundle, &[]);
}

#[test]
#[ignore = "needs the demo GGUF, ONNX Runtime and the Python clients: run by cargo xtask test"]
fn optimum_says_what_transformers_says() {
    says_the_same("PLANSMITH_OPTIMUM_PYTHON", "greedy_optimum.py", &demo(), &[]);
}

#[test]
#[ignore = "needs the demo GGUF, ONNX Runtime and transformers.js: run by cargo xtask test"]
fn transformers_js_says_what_transformers_says() {
    assert!(std::env::var_os("PLANSMITH_NODE_MODULES").is_some(), "cargo xtask test sets it");
    says_the_same("PLANSMITH_NODE", "greedy_transformers_js.mjs", &demo(), &[]);
}

/// The demo model in half precision, with the names that a hub's clients fetch.
fn narrow() -> PathBuf {
    static ONCE: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    let written = ONCE.get_or_init(|| {
        let model = demo().with_file_name("model");
        let folder = model.with_file_name("fp16");
        plansmith(&["export", text(&model), "-o", text(&folder), "--dtype", "fp16", "--layout", "clients", "--hub-layout"]).exits(0);
        folder
    });
    written.clone()
}

#[test]
#[ignore = "needs the demo GGUF, ONNX Runtime, the Python clients and transformers.js: run by cargo xtask test"]
fn half_precision_says_the_same_from_disk_and_from_a_hub() {
    says_the_same("PLANSMITH_GENAI_PYTHON", "greedy_genai.py", &narrow(), &[]);
    says_the_same("PLANSMITH_NODE", "greedy_transformers_js.mjs", &narrow(), &["--dtype", "fp16", "--hub"]);
}

#[test]
#[ignore = "needs the demo GGUF, ONNX Runtime, transformers.js and Chromium: run by cargo xtask test"]
fn a_browser_fetches_what_it_needs_from_a_hub_and_says_the_same() {
    let said = says_the_same("PLANSMITH_NODE", "greedy_browser.mjs", &narrow(), &["--dtype", "fp16"]);
    let tokenizer = ["tokenizer.json", "tokenizer_config.json"];
    let fetched =
        [&["config.json", "generation_config.json", "onnx/model_fp16.onnx", "onnx/model_fp16.onnx_data"][..], &tokenizer].concat();
    assert_eq!(said["fetched"], json!(fetched));
}

#[test]
fn a_repository_for_triton_holds_every_input_and_output() {
    let folder = tempfile::tempdir().unwrap();
    let model = checkpoint(folder.path());
    let out = folder.path().join("repository");
    plansmith(&["export", text(&model), "-o", text(&out), "--layout", "triton", "--dtype", "fp16"]).exits(0);
    assert_eq!(common::names(&out.join("model/1/model.onnx")), ["model.onnx", "model_fp16.safetensors"]);
    let config = std::fs::read_to_string(out.join("model/config.pbtxt")).unwrap();
    let head = "name: \"model\"\nbackend: \"onnxruntime\"\ndefault_model_filename: \"model.onnx\"\nmax_batch_size: 0\ninput [\n";
    assert!(config.starts_with(head), "{config}");
    for line in [
        "  { name: \"input_ids\" data_type: TYPE_INT64 dims: [ -1, -1 ] },",
        "  { name: \"past_key_values.0.key\" data_type: TYPE_FP16 dims: [ -1, 2, -1, 16 ] },",
        "  { name: \"logits\" data_type: TYPE_FP32 dims: [ -1, -1, 256 ] },",
    ] {
        assert!(config.lines().any(|found| found == line), "{line} is not in\n{config}");
    }
    let refused = plansmith(&["export", text(&model), "-o", text(&out), "--layout", "triton", "--dtype", "bf16"]).exits(2);
    assert!(refused.stderr.contains("BF16"), "{}", refused.stderr);
}

/// A prompt with what transformers continues it by.
fn sentence(case: &Value) -> String {
    [&case["prompt"], &case["text"]].map(|text| text.as_str().unwrap()).concat()
}

#[track_caller]
fn prints_the_sentence(command: &mut Command) {
    let case = &json(&greedy())["cases"][0];
    let said = run(command.args([text(&demo()), case["prompt"].as_str().unwrap()]).env("HF_HUB_OFFLINE", "1")).exits(0);
    assert_eq!(said.stdout.trim_end(), sentence(case));
}

fn program(variable: &str, script: &str) -> Command {
    let mut command = Command::new(std::env::var_os(variable).unwrap_or_else(|| panic!("cargo xtask test sets {variable}")));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(script));
    command
}

#[test]
#[ignore = "needs the demo GGUF, ONNX Runtime and the Python clients: run by cargo xtask test"]
fn the_python_examples_print_the_sentence() {
    prints_the_sentence(&mut program("PLANSMITH_GENAI_PYTHON", "python/genai.py"));
    prints_the_sentence(&mut program("PLANSMITH_OPTIMUM_PYTHON", "python/optimum_onnx.py"));
}

#[test]
#[ignore = "needs the demo GGUF, ONNX Runtime and transformers.js: run by cargo xtask test"]
fn the_javascript_example_prints_the_sentence() {
    let modules = std::env::var_os("PLANSMITH_NODE_MODULES").expect("cargo xtask test sets PLANSMITH_NODE_MODULES");
    prints_the_sentence(program("PLANSMITH_NODE", "javascript/main.mjs").env("NODE_PATH", modules));
}

#[test]
#[ignore = "needs the demo GGUF and ONNX Runtime: run by cargo xtask test"]
fn the_rust_example_prints_the_sentence() {
    // Cargo builds examples with the tests, beside the folder of the test programs.
    let example = std::env::current_exe().unwrap().parent().unwrap().with_file_name("examples/consumer");
    if !example.is_file() {
        run(Command::new(env!("CARGO")).args(["build", "--example", "consumer"]).current_dir(env!("CARGO_MANIFEST_DIR"))).exits(0);
    }
    prints_the_sentence(&mut Command::new(example));
}

#[test]
#[ignore = "needs the demo GGUF, ONNX Runtime and its C header: run by cargo xtask test"]
fn the_cpp_example_says_what_transformers_says() {
    let include = std::env::var_os("PLANSMITH_ORT_INCLUDE").expect("cargo xtask test sets PLANSMITH_ORT_INCLUDE");
    let folder = tempfile::tempdir().unwrap();
    let (source, consumer) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/cpp/main.cpp"), folder.path().join("consumer"));
    let flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-I"];
    run(Command::new("g++").args(flags).arg(include).arg(source).args(["-ldl", "-o"]).arg(&consumer)).exits(0);
    let bundle = demo();
    for case in json(&greedy())["cases"].as_array().unwrap() {
        let ids = case["ids"].as_array().unwrap().iter().map(Value::to_string);
        let said = run(Command::new(&consumer).arg(&bundle).args(ids)).exits(0);
        assert_eq!(said.stdout, sentence(case) + "\n");
    }
}

#[test]
#[ignore = "needs the Python clients: run by cargo xtask test"]
fn polygraphy_and_onnxslim_read_both_dialects() {
    let folder = tempfile::tempdir().unwrap();
    let mut graphs = Vec::new();
    for dialect in ["portable", "onnxruntime"] {
        let out = folder.path().join(dialect);
        plansmith(&["export", text(&case("llama3_rope")), "-o", text(&out), "--dialect", dialect]).exits(0);
        graphs.push(out.join("model.onnx"));
    }
    let python = std::env::var_os("PLANSMITH_GRAPH_TOOLS_PYTHON").expect("cargo xtask test sets PLANSMITH_GRAPH_TOOLS_PYTHON");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/clients/inspect_graphs.py");
    let read = run(Command::new(python).arg(script).args(&graphs)).exits(0);
    assert_eq!(read.stdout.lines().count(), graphs.len(), "{}", read.stdout);
}

#[test]
#[ignore = "needs the Python clients: run by cargo xtask test"]
fn triton_s_own_message_reads_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    plansmith(&["export", text(&case("llama3_rope")), "-o", text(folder.path()), "--layout", "triton"]).exits(0);
    let python = std::env::var_os("PLANSMITH_GRAPH_TOOLS_PYTHON").expect("cargo xtask test sets PLANSMITH_GRAPH_TOOLS_PYTHON");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/clients/read_triton.py");
    let read = run(Command::new(python).arg(script).arg(folder.path().join("llama3_rope/config.pbtxt"))).exits(0);
    let read: Value = serde_json::from_str(&read.stdout).unwrap();
    assert_eq!((read["input"].as_array().unwrap().len(), read["output"].as_array().unwrap().len()), (3 + 4, 1 + 4));
    assert_eq!(read["input"][3]["dims"], json!(["-1", "2", "-1", "16"]));
    assert_eq!((&read["backend"], &read["max_batch_size"]), (&json!("onnxruntime"), &Value::Null));
}
