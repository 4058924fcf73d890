//! Every tiny checkpoint has the outcome that transformers, or its README, says; in every form and on every runtime.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::collections::BTreeMap;

use common::{Run, case, copy_files, plansmith, text};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    verdict: String,
    #[serde(default)]
    names: Vec<String>,
}

fn expected() -> Vec<(String, Expected)> {
    let text = std::fs::read_to_string(case("expected.json")).unwrap();
    let mut all: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
    all.remove("st");
    let cases: Vec<_> = all.into_iter().map(|(name, value)| (name, serde_json::from_value(value).unwrap())).collect();
    assert!(cases.len() > 60, "{} cases", cases.len());
    cases
}

fn agreeing() -> Vec<String> {
    let names: Vec<_> = expected().into_iter().filter(|(_, expected)| expected.verdict == "agree").map(|(name, _)| name).collect();
    assert!(names.len() > 50, "{} cases agree", names.len());
    names
}

/// Every printed `max_rel` against the golden; transformers computed those logits.
fn worst(run: &Run) -> f64 {
    let figures = run.stdout.lines().filter(|line| line.contains(" golden ")).filter_map(|line| line.split("max_rel ").nth(1));
    let figures: Vec<f64> = figures.map(|rest| rest.split_whitespace().next().unwrap().parse().unwrap()).collect();
    assert!(!figures.is_empty(), "{}", run.stdout);
    figures.into_iter().fold(0.0, f64::max)
}

fn verify(name: &str, runtime: &str, more: &[&str]) -> Run {
    let (folder, golden) = (case(name), case(name).join("golden.safetensors"));
    let arguments = [&["verify", text(&folder), "--golden", text(&golden), "--runtime", runtime], more].concat();
    plansmith(&arguments)
}

#[test]
fn every_case_that_must_agree_agrees_on_rten() {
    for name in agreeing() {
        let run = verify(&name, "rten", &[]).exits(0);
        assert!(worst(&run) <= 1e-4, "{name}: {}", run.stdout);
    }
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn every_case_that_must_agree_agrees_on_onnx_runtime() {
    for name in agreeing() {
        let run = verify(&name, "ort", &[]).exits(0);
        assert!(worst(&run) <= 1e-4, "{name}: {}", run.stdout);
    }
}

#[test]
fn every_case_that_must_be_refused_names_its_reason() {
    for (name, expected) in expected() {
        if expected.verdict != "refuse" {
            continue;
        }
        let run = plansmith(&["verify", text(&case(&name))]).exits(2);
        assert!(run.stdout.is_empty(), "{name}: {}", run.stdout);
        let named = expected.names.iter().any(|name| run.stderr.contains(name.as_str()));
        assert!(named || expected.names.is_empty(), "{name}: none of {:?} in {}", expected.names, run.stderr);
    }
}

/// Exports `name` with `flags` into a folder of its own and returns the graph.
fn exported(name: &str, flags: &[&str]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (case(name), folder.path().join("out"));
    plansmith(&[&["export", text(&source), "-o", text(&out)], flags].concat()).exits(0);
    let graph = common::names(&out).into_iter().find(|name| name.ends_with(".onnx")).unwrap();
    let graph = text(&out.join(graph)).to_owned();
    (folder, graph)
}

/// One case for each thing that the forms treat apart: grouped heads, biases, windows, head norms, a scaled rotation.
const FORMS: [&str; 31] = [
    "llama3_rope",
    "llama_attention_bias",
    "made_qwen2_window",
    "made_qwen3_qk_norm",
    "made_qwen3_window",
    "left_pad_batch",
    "gemma2_softcap_scalar",
    "gemma3_two_thetas",
    "gpt2_extra_buffers_noprefix",
    "granite_multipliers",
    "longrope_long_prompt",
    "neox_interleaved_qkv",
    "olmo2_postnorm_qk",
    "smollm3_nope",
    "made_cohere_qk_norm",
    "made_nemotron_partial",
    "made_glm_partial",
    "made_stablelm_parallel",
    "made_modernbert_decoder_thetas",
    "made_nanochat_cap",
    "made_granite_swa_sinks",
    "made_bloom_six_heads",
    "made_mpt_clip",
    "made_opt_post_norm",
    "made_gptj_rotary_dim",
    "made_codegen_blocks",
    "made_falcon_40b",
    "made_xglm_scaled",
    "made_apertus_xielu",
    "made_ministral3_query_scale",
    "made_bitnet_norms",
];

fn forms_agree(runtime: &str) {
    for name in FORMS {
        for flags in [&["--opset", "23"][..], &["--opset", "21"], &["--dialect", "tensorrt"], &["--logits", "last"]] {
            let (_folder, graph) = exported(name, flags);
            let run = verify(name, runtime, &["--onnx", &graph]).exits(0);
            assert!(worst(&run) <= 1e-4, "{name} {flags:?}: {}", run.stdout);
        }
    }
}

#[test]
fn every_form_agrees_on_rten() {
    forms_agree("rten");
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn every_form_agrees_on_onnx_runtime() {
    forms_agree("ort");
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn sixteen_bit_exports_agree_within_their_tolerance() {
    for name in ["llama3_rope", "made_llama_fp16", "made_qwen3_window"] {
        for flags in [
            &["--dtype", "fp16"][..],
            &["--dtype", "fp16", "--opset", "21"],
            &["--dtype", "fp16", "--dialect", "tensorrt"],
            &["--dtype", "bf16", "--compute", "fp32"],
        ] {
            let (_folder, graph) = exported(name, flags);
            verify(name, "rten,ort", &["--onnx", &graph]).exits(0);
        }
    }
}

#[test]
fn activations_beyond_fp16_are_named_by_layer() {
    let (_folder, graph) = exported("fp16_overflow", &["--dtype", "fp16"]);
    let run = plansmith(&["verify", text(&case("fp16_overflow")), "--onnx", &graph]).exits(1);
    assert!(run.stdout.contains("layer 0, mlp: activations reach"), "{}", run.stdout);
}

#[test]
fn a_changed_weight_is_found_by_the_static_audit() {
    let folder = tempfile::tempdir().unwrap();
    let (source, out) = (folder.path().join("source"), folder.path().join("out"));
    copy_files(&case("llama3_rope"), &source);
    plansmith(&["export", text(&source), "-o", text(&out)]).exits(0);
    let copy = out.join("model.safetensors");
    let mut bytes = std::fs::read(&copy).unwrap();
    let last = bytes.len() - 3;
    bytes[last] ^= 1;
    std::fs::write(&copy, bytes).unwrap();
    let run = plansmith(&["verify", text(&source), "--onnx", text(&out.join("model.onnx"))]).exits(1);
    assert!(
        run.stdout.contains("static audit: initializer `model.norm.weight`") || run.stdout.contains("static audit: initializer"),
        "{}",
        run.stdout
    );
}
