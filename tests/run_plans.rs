//! `run` and `bench` of plans: as far as the first call that needs a GPU, and on a GPU to the end.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::{Path, PathBuf};

use common::{case, names, plansmith, text, words};
use plansmith_engine::{PlanManifest, check_plan, manifest_path};
use serde_json::Value;

/// The architecture of the GPU here, where there is one.
fn here() -> Option<String> {
    let found: Vec<Value> = serde_json::from_str(&plansmith(&["doctor", "--json"]).exits(0).stdout).unwrap();
    let gpu = found.into_iter().find(|finding| finding["what"] == "gpu" && finding["usable"] == true)?;
    let compute = gpu["detail"].as_str().unwrap().rsplit_once("compute ")?.1.trim_end_matches(')').replace('.', "");
    Some(format!("sm{compute}"))
}

/// Exports `name` in fp16 with `kv` and builds a plan of it; the plan.
fn built(name: &str, kv: &[&str], arch: &str, folder: &Path) -> PathBuf {
    let (graphs, plans) = (folder.join("onnx"), folder.join("plans"));
    let source = case(name);
    let export = ["export", text(&source), "-o", text(&graphs), "--dialect", "tensorrt", "--dtype", "fp16"];
    plansmith(&[&export, kv].concat()).exits(0);
    let graph = names(&graphs).into_iter().find(|name| name.ends_with(".onnx")).unwrap();
    let profile = "decode:batch=1..1..3,sequence=1..8..64,past=0..8..63";
    plansmith(&["engine", text(&graphs.join(graph)), "-o", text(&plans), "--arch", arch, "--profile", profile]).exits(0);
    plans.join(arch).join("decode.plan")
}

const STATIC: &[&str] = &["--kv", "static", "--max-length", "64"];

/// What TensorRT's cache update takes, of kinds that masks and biases treat apart.
#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_static_cache_is_recorded_as_one_buffer() {
    for name in ["llama3_rope", "made_bloom_six_heads", "gemma2_softcap_scalar", "made_granite_swa_sinks", "left_pad_gpt2"] {
        let folder = tempfile::tempdir().unwrap();
        let plan = built(name, STATIC, "sm89", folder.path());
        let manifest = check_plan(&plan).unwrap().manifest;
        assert!(!manifest.cache.is_empty() && manifest.cache.iter().all(|pair| pair.aliased), "{name}: {:?}", manifest.cache);
        let input = |name: &str| manifest.inputs.iter().find(|input| input.name == name).unwrap().shape.clone();
        assert_eq!((input("attention_mask"), input("cache_position")), (vec![-1, 64], vec![-1]), "{name}");
        assert_eq!(input("past_key_values.0.key")[2], 64, "{name}");
    }
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_profile_beyond_the_slots_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let graphs = folder.path().join("onnx");
    let source = case("llama3_rope");
    let export = ["export", text(&source), "-o", text(&graphs), "--dtype", "fp16"];
    plansmith(&[&export, STATIC].concat()).exits(0);
    let graph = graphs.join("model_fp16_static.onnx");
    let profile = "decode:batch=1,sequence=1..8..16,past=0..8..64";
    let run = plansmith(&["engine", text(&graph), "-o", text(folder.path()), "--arch", "sm89", "--profile", profile]).exits(2);
    assert!(run.stderr.contains("profile `decode`") && run.stderr.contains("65 tokens; the longest is 64"), "{}", run.stderr);
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn without_a_gpu_run_and_bench_check_the_plan_and_say_so() {
    if here().is_some() {
        return;
    }
    for kv in [&[][..], STATIC] {
        let folder = tempfile::tempdir().unwrap();
        let plan = built("llama3_rope", kv, "sm89", folder.path());
        for path in [plan.as_path(), plan.parent().unwrap()] {
            let run = plansmith(&["bench", text(path), "--json"]).exits(2);
            assert!(run.stdout.is_empty(), "{}", run.stdout);
            let said = "decode.plan was checked and cannot be executed here: there is no CUDA driver (libcuda.so.1) here";
            assert!(run.stderr.contains(said), "{}", run.stderr);
            assert!(run.stderr.contains("hint: run it on a host with a GPU of sm89, or run the ONNX graph"), "{}", run.stderr);
        }
        let refused = plansmith(&["bench", text(&plan), "--runtime", "rten"]).exits(2);
        assert!(refused.stderr.contains("rten runs graphs; "), "{}", refused.stderr);
    }
}

/// What differs is said before TensorRT is asked: it would say `Current Version: 243, Serialized Engine Version: 240`.
#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_plan_of_another_library_is_told_by_its_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let plan = built("llama3_rope", &[], "sm89", folder.path());
    let mut bytes = std::fs::read(&plan).unwrap();
    bytes[25] -= 1;
    std::fs::write(&plan, &bytes).unwrap();
    let mut manifest = PlanManifest::read(&manifest_path(&plan)).unwrap();
    manifest.library.version.parts[1] -= 1;
    manifest.plan.header.version = manifest.library.version;
    manifest.plan.sha256 = plansmith_files::Digest::of(&bytes);
    manifest.write(&manifest_path(&plan)).unwrap();
    let run = plansmith(&["bench", text(&plan)]).exits(2);
    let said = "decode.plan` cannot run here: it was built with TensorRT-RTX 1.6.1.116; version 1.7.1.116 is loaded";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    assert!(run.stderr.contains("hint: build the plan for this host"), "{}", run.stderr);
}

/// A tokenizer is looked for up to the bundle's own folder.
#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn run_finds_the_tokenizer_above_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let plan = built("llama3_rope", &[], "sm89", folder.path());
    let missing = plansmith(&["run", text(&plan), "--prompt", "Hello"]).exits(2);
    assert!(missing.stderr.contains("no tokenizer.json in "), "{}", missing.stderr);
    std::fs::write(folder.path().join("tokenizer.json"), words(256).to_string()).unwrap();
    if here().is_none() {
        let run = plansmith(&["run", text(&plan), "--prompt", "Hello"]).exits(2);
        assert!(run.stderr.contains("cannot be executed here"), "{}", run.stderr);
    }
}

/// Both forms of cache, in several kinds of model, against transformers' logits.
#[test]
#[ignore = "needs a GPU and the TensorRT-RTX worker: run by cargo xtask test"]
fn plans_of_both_forms_agree_with_transformers() {
    let arch = here().unwrap();
    for name in ["llama_attention_bias", "made_qwen2_window", "made_bloom_six_heads", "gemma2_softcap_scalar", "left_pad_gpt2"] {
        for kv in [&[][..], STATIC] {
            let folder = tempfile::tempdir().unwrap();
            let plan = built(name, kv, &arch, folder.path());
            let (source, golden) = (case(name), case(name).join("golden.safetensors"));
            let run = plansmith(&["verify", text(&source), "--plan", text(&plan), "--golden", text(&golden), "--require-executed"]);
            assert!(run.exits(0).stdout.contains(" golden    agree"), "{name} {kv:?}");
        }
    }
}

/// One past the last slot is refused, and the plan's kernels are kept for the next time.
#[test]
#[ignore = "needs a GPU and the TensorRT-RTX worker: run by cargo xtask test"]
fn bench_runs_a_plan_to_its_last_slot_and_keeps_its_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let plan = built("llama3_rope", STATIC, &here().unwrap(), folder.path());
    let bench = |decode: &str| {
        let mut command = common::command(&["bench", text(&plan), "--prefill", "32", "--decode", decode, "--json"]);
        common::run(command.env("PLANSMITH_CACHE", folder.path()))
    };
    let report: Value = serde_json::from_str(&bench("32").exits(0).stdout).unwrap();
    for key in ["load_header_s", "load_map_s", "load_deserialise_s", "load_context_s", "first_token_s"] {
        assert!(report[key].as_f64().unwrap() > 0.0, "{key}: {report}");
    }
    assert_eq!(names(&folder.path().join("kernels")).len(), 1);
    let past = bench("33").exits(2);
    assert!(past.stderr.contains("65 tokens a row do not fit its static cache: max_length is 64"), "{}", past.stderr);
}
