//! The demo model: real weights, real logits of transformers, text.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use common::{command, names, plansmith, run, text};

/// Imports the demo GGUF into a new folder.
fn imported(dtype: &str) -> (tempfile::TempDir, PathBuf) {
    let gguf = std::env::var("PLANSMITH_DEMO_GGUF").expect("cargo xtask test sets PLANSMITH_DEMO_GGUF");
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    plansmith(&["import", &gguf, "-o", text(&model), "--dtype", dtype]).exits(0);
    (folder, model)
}

fn golden(name: &str) -> String {
    text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/demo").join(name)).to_owned()
}

/// The largest `max_rel` against the golden.
fn worst(stdout: &str) -> f64 {
    let lines = stdout.lines().filter(|line| line.contains(" golden "));
    let figures: Vec<f64> = lines.filter_map(|line| line.split("max_rel ").nth(1)?.split_whitespace().next()?.parse().ok()).collect();
    assert!(figures.len() >= 9, "{stdout}");
    figures.into_iter().fold(0.0, f64::max)
}

#[test]
#[ignore = "needs the demo GGUF and ONNX Runtime: run by cargo xtask test"]
fn the_demo_model_agrees_with_transformers_and_knows_a_capital() {
    let (_folder, model) = imported("fp32");
    plansmith(&["export", text(&model), "-o", text(&model)]).exits(0);
    let graph = model.join("model.onnx");
    let golden = golden("golden.safetensors");
    let verified = plansmith(&["verify", text(&model), "--onnx", text(&graph), "--golden", &golden, "--runtime", "rten,ort"]).exits(0);
    assert!(worst(&verified.stdout) <= 1e-4, "{}", verified.stdout);
    for runtime in ["rten", "ort"] {
        let arguments = ["run", text(&graph), "--prompt", "The capital of France is", "--max-tokens", "8", "--runtime", runtime];
        let said = plansmith(&arguments).exits(0);
        assert!(said.stdout.contains(" Paris"), "{}", said.stdout);
    }
    let chat = plansmith(&["run", text(&model), "--chat", "--prompt", "What is the capital of France?", "--max-tokens", "24"]).exits(0);
    assert!(chat.stdout.contains("Paris"), "{}", chat.stdout);
}

#[test]
#[ignore = "needs the demo GGUF and ONNX Runtime: run by cargo xtask test"]
fn a_bf16_checkpoint_runs_in_place_in_fp32() {
    let (_folder, model) = imported("bf16");
    let before = names(&model).len();
    plansmith(&["export", text(&model), "-o", text(&model), "--compute", "fp32"]).exits(0);
    assert_eq!(names(&model).len(), before + 1);
    let (graph, golden) = (model.join("model.onnx"), golden("golden_bf16.safetensors"));
    let verified = plansmith(&["verify", text(&model), "--onnx", text(&graph), "--golden", &golden, "--runtime", "rten,ort"]).exits(0);
    assert!(worst(&verified.stdout) <= 1e-4, "{}", verified.stdout);
}

/// A pipeline over a tiny checkpoint that builds two plans.
fn tiny_with_plans(folder: &Path) -> PathBuf {
    common::copy_files(&common::case("llama3_rope"), &folder.join("model"));
    let pipeline = folder.join("pipeline.yaml");
    let text = "name: tiny\nsource: { checkpoint: model }\nexport:\n  - { id: fp16, dtype: fp16 }\n  - { id: fp32 }\n\
                engines:\n  - from: fp16\n    architectures: [sm86]\n    profiles: { decode: { batch: 1, sequence: 1, past: [0, 8, 64] } }\n  \
                - from: fp32\n    architectures: [sm89]\n    profiles: { prefill: { batch: 1, sequence: [1, 8, 64], past: 0 } }\n\
                output: dist/tiny\n";
    std::fs::write(&pipeline, text).unwrap();
    pipeline
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_killed_build_leaves_the_last_bundle_and_the_next_one_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let pipeline = tiny_with_plans(folder.path());
    let bundle = folder.path().join("dist/tiny");
    for milliseconds in [200, 600, 1200, 2000] {
        let mut child = command(&["--quiet", "build", text(&pipeline), "--force"]).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        child.kill().unwrap();
        let killed = child.wait().unwrap().code().is_none();
        assert!(!killed || !bundle.exists() || plansmith(&["check", text(&bundle)]).code == Some(0));
    }
    let built = run(&mut command(&["build", text(&pipeline)])).exits(0);
    assert!(built.stdout.contains("not_executed on this host: engines/"), "{}", built.stdout);
    let checked = plansmith(&["check", text(&bundle)]).exits(0);
    assert!(checked.stdout.contains("verdict agree"), "{}", checked.stdout);
    assert_eq!(names(&folder.path().join("dist")), ["tiny"]);
    // TensorRT-RTX has no composite attention in fp32: the variant that the plan was built from is in the bundle.
    assert!(bundle.join("onnx/model_fp32-tensorrt.onnx").is_file(), "{:?}", names(&bundle.join("onnx")));
    let engines = bundle.join("engines");
    let version = names(&engines).remove(0);
    for plan in ["sm86/decode", "sm89/prefill"] {
        let path = engines.join(&version).join(plan).with_extension("plan");
        let inspected = plansmith(&["inspect", text(&path)]).exits(0);
        assert!(inspected.stdout.contains(&plan[..4]), "{}", inspected.stdout);
    }
    let lacking = run(&mut command(&["build", text(&pipeline), "--require-executed"])).exits(1).stderr;
    let last = lacking.lines().last().unwrap_or_default();
    assert!(last.starts_with("--require-executed: ") && last.contains("sm86/decode.plan"), "{lacking}");
    assert!(plansmith(&["check", text(&bundle)]).exits(0).stdout.contains("verdict agree"));
}

/// With open rows TensorRT's compiler sorts by address: four of twelve such plans differed before the worker ordered its threads, and all that were
/// stripped, before it gave names back in order.
#[test]
#[ignore = "needs the TensorRT-RTX worker and the demo GGUF: run by cargo xtask test"]
fn a_plan_with_open_rows_has_the_same_bytes_alone_and_on_a_busy_machine() {
    let (folder, model) = imported("bf16");
    let exported = folder.path().join("export");
    plansmith(&["export", text(&model), "-o", text(&exported), "--dtype", "fp16", "--dialect", "tensorrt", "--logits", "last"]).exits(0);
    let graph = exported.join("model_fp16.onnx");
    let build = |name: &str| {
        let out = folder.path().join(name);
        let profile = "decode:batch=1..8..32,sequence=1,past=0..512..2048";
        let arguments = [
            "engine",
            text(&graph),
            "-o",
            text(&out),
            "--arch",
            "sm86",
            "--profile",
            profile,
            "--weights",
            "stripped",
            "--no-cache",
            "--json",
        ];
        let reports: serde_json::Value = serde_json::from_str(&plansmith(&arguments).exits(0).stdout).unwrap();
        std::fs::remove_dir_all(&out).unwrap();
        reports[0].clone()
    };
    let done = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        let (done, end) = (&done, Instant::now() + Duration::from_secs(120));
        let busy = move || while !done.load(Relaxed) && Instant::now() < end {};
        let builds = ["a", "b, in a folder with a longer name"].map(|name| scope.spawn(move || build(name)));
        scope.spawn(busy);
        scope.spawn(busy);
        let builds = builds.map(|build| build.join().unwrap());
        done.store(true, Relaxed);
        builds
    });
    let alone = build("c");
    if alone["reproducible"]["not-tried"]["randomised_addresses"] == "off" {
        assert_eq!(beside[0]["sha256"], beside[1]["sha256"]);
        assert_eq!(beside[0]["sha256"], alone["sha256"]);
        assert!(alone["sha256"].is_string() && alone["warnings"] == serde_json::json!([]), "{alone}");
    }
}
