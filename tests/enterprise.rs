//! Plans of the enterprise flavour by the command, with a worker that is scripted: there is no GPU to build them on.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;
#[path = "../crates/engine/tests/common/program.rs"]
mod program;
#[path = "../crates/engine/tests/common/scripted.rs"]
mod scripted_worker;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Run, case, command, copy_files, names, run, text};
use plansmith_engine::Gpu;
use plansmith_files::Digest;
use program::program;
use scripted_worker::gpu;
use serde_json::{Value, json};

/// The worker that the command starts.
#[test]
fn scripted() {
    scripted_worker::serve();
}

/// A folder with a checkpoint, a pipeline and the scripted worker.
struct Host {
    folder: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let host = Self { folder: tempfile::tempdir().unwrap() };
        copy_files(&case("llama3_rope"), &host.at("model"));
        host
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn pipeline(&self, engine: &str) -> PathBuf {
        let path = self.at("pipeline.yaml");
        let engines =
            format!("  - from: fp16\n    profiles: {{ decode: {{ batch: 1, sequence: [1, 4, 16], past: [0, 8, 32] }} }}\n    {engine}\n");
        let text = format!(
            "name: tiny\nsource: {{ checkpoint: model }}\nexport:\n  - {{ id: fp16, dtype: fp16, dialect: tensorrt }}\nengines:\n{engines}output: dist\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The command on this host, with this GPU.
    fn with(&self, gpu: Option<&Gpu>, arguments: &[&str]) -> Command {
        let paths = scripted_worker::paths(self.folder.path(), gpu);
        let mut command = command(arguments);
        command.env("PLANSMITH_WORKER_ENTERPRISE", paths.worker).env("PLANSMITH_TENSORRT_DIR", paths.libraries);
        command.env("PLANSMITH_CACHE", self.at("cache"));
        command
    }

    fn run(&self, gpu: Option<&Gpu>, arguments: &[&str]) -> Run {
        run(&mut self.with(gpu, arguments))
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

const ENTERPRISE: &str = "flavor: enterprise\n    architectures: native";

#[test]
fn timings_are_kept_for_each_gpu_and_library() {
    let (host, h200) = (Host::new(), gpu("NVIDIA H200", "9.0"));
    let onnx = text(Path::new("testdata/engine/decoder.onnx")).to_owned();
    let out = host.at("plans");
    let engine = |more: &[&str]| {
        let profile = "decode:batch=1,sequence=1..4..16,past=0..8..32";
        let flags = ["engine", &onnx, "-o", text(&out), "--flavor", "enterprise", "--arch", "native", "--profile", profile, "--json"];
        let run = host.run(Some(&h200), &[&flags, more].concat()).exits(0);
        let result: Value = serde_json::from_str(&run.stdout).unwrap();
        (result[0]["timing_cache"].clone(), run.stderr)
    };
    let digest = |text: &str| Digest::of(text.as_bytes()).to_string();
    assert_eq!(engine(&[]).0, json!({ "read": null, "written": digest("timings of 1") }));
    assert_eq!(names(&host.at("cache/timings")), ["11.4.0.106-NVIDIA_H200-9.0.timings"]);
    assert_eq!(engine(&[]).0, json!({ "read": digest("timings of 1"), "written": digest("timings of 2") }));
    assert_eq!(engine(&["--timing-cache", "off"]).0, Value::Null);

    // What is damaged there is told and replaced.
    let kept = host.at("cache/timings/11.4.0.106-NVIDIA_H200-9.0.timings");
    std::fs::write(&kept, "damaged").unwrap();
    let (record, said) = engine(&[]);
    assert_eq!(record, json!({ "read": null, "written": digest("timings of 1"), "refused": "they are of another GPU" }));
    assert!(said.contains("everything is measured anew, since the timing cache was refused: they are of another GPU"), "{said}");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "timings of 1");
    let inspected = host.run(None, &["inspect", text(&out.join("native/decode.plan"))]).exits(0);
    assert!(
        inspected.stdout.contains("timing cache: began with none, left ") && inspected.stdout.contains("refused"),
        "{}",
        inspected.stdout
    );

    // A place that cannot be used costs the timings and not the plan.
    std::fs::remove_dir_all(host.at("cache/timings")).unwrap();
    std::fs::write(host.at("cache/timings"), "in the way").unwrap();
    let (record, said) = engine(&[]);
    assert!(record["not_kept"].as_str().unwrap().contains("(os error "), "{record}");
    assert!(said.contains("the plan is built, and its timings are not kept (--timing-cache): "), "{said}");

    let flags = ["engine", &onnx, "-o", "plans", "--arch", "sm86", "--profile", "chat"];
    for (more, said) in [
        (["--timing-cache", "t"], "timing cache `t`: TensorRT-RTX builds without a GPU"),
        (["--compatible", "version"], "enterprise"),
        (["--arch", "native"], "sm121; `native` is for the enterprise flavour"),
    ] {
        let refused = host.run(None, &[flags.as_slice(), &more].concat()).exits(2);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
}

#[test]
fn a_pipeline_builds_for_the_gpu_of_its_machine() {
    let (host, h200) = (Host::new(), gpu("NVIDIA H200", "9.0"));
    let pipeline = host.pipeline(&format!("{ENTERPRISE}\n    compatible: [same-compute-capability]\n    timing_cache: h200.timings"));
    let build = ["build", text(&pipeline)];
    // Without one it is told before anything is written; what needs none goes on.
    let refused = host.run(None, &build).exits(2);
    assert!(refused.stderr.contains("`engine:fp16:native:decode` is of the enterprise flavour"), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: run the build on a machine with that GPU"), "{}", refused.stderr);
    assert!(!host.at("dist.partial").exists() && !host.at("dist").exists());
    let planned = host.run(None, &["build", text(&pipeline), "--plan-only"]).exits(0);
    assert_eq!(planned.stdout, "run    export:fp16\nrun    engine:fp16:native:decode\nrun    verify\nrun    bundle\n");
    host.run(None, &["build", text(&pipeline), "--stage", "export"]).exits(0);

    let built = host.run(Some(&h200), &build).exits(0);
    assert!(built.stdout.contains("engines/enterprise-11.4.0.106/sm90/decode.plan"), "{}", built.stdout);
    let bundle = host.at("dist");
    let manifest = json(&bundle.join("manifest.json"));
    let plan = "engines/enterprise-11.4.0.106/sm90/decode.plan";
    assert_eq!((&manifest["plans"][0]["path"], &manifest["plans"][0]["architecture"]), (&json!(plan), &json!("sm90")));
    let beside = json(&bundle.join(plan).with_extension("json"));
    assert_eq!((&beside["compatible"], &beside["host"]["gpu"]["name"]), (&json!(["same-compute-capability"]), &json!("NVIDIA H200")));
    assert_eq!(beside["timing_cache"]["written"], json!(Digest::of(b"timings of 1").to_string()));
    assert_eq!(std::fs::read_to_string(host.at("h200.timings")).unwrap(), "timings of 1");
    host.run(None, &["check", text(&bundle)]).exits(0);

    let again = host.run(Some(&h200), &build).exits(0);
    assert!(again.stdout.starts_with("up to date"), "{}", again.stdout);
    // Triton serves it, where its server can.
    let triton = host.pipeline(&format!("{ENTERPRISE}\nlayouts: [triton]"));
    host.run(Some(&h200), &["build", text(&triton)]).exits(0);
    assert_eq!(names(&bundle.join("triton")), ["tiny-fp16", "tiny-fp16-decode"]);
    let config = std::fs::read_to_string(bundle.join("triton/tiny-fp16-decode/config.pbtxt")).unwrap();
    assert!(config.contains("platform: \"tensorrt_plan\"") && config.contains("{ key: \"9.0\" value: \"sm90.plan\" }"), "{config}");
    let served = bundle.join("triton/tiny-fp16-decode/1/sm90.plan");
    assert_eq!(std::fs::read(served).unwrap(), std::fs::read(bundle.join(plan)).unwrap());
    host.run(None, &["check", text(&bundle)]).exits(0);

    // Another GPU is another plan.
    host.pipeline(ENTERPRISE);
    let listed = host.run(Some(&gpu("NVIDIA A100", "8.0")), &["build", text(&pipeline), "--plan-only"]).exits(0);
    assert_eq!(listed.stdout, "cached export:fp16\nrun    engine:fp16:native:decode\nrun    verify\nrun    bundle\n");
}

#[test]
fn what_a_flavour_lacks_is_refused_by_its_key() {
    let host = Host::new();
    for (engine, said) in [
        (
            "flavor: enterprise\n    architectures: [sm86]",
            "`engines[0].architectures` cannot be: the enterprise flavour of TensorRT builds for the GPU of the machine",
        ),
        ("flavor: enterprise\n    architectures: [sm90]", "`architectures: native` in place of names"),
        ("architectures: native", "`engines[0].architectures` cannot be: TensorRT-RTX builds for architectures that are named"),
        ("architectures: nativ", "expected a list of architectures, or `native`"),
        ("architectures: [sm86]\n    compatible: [version]", "`engines[0].compatible` cannot be: "),
        ("architectures: [sm86]\n    timing_cache: t", "`engines[0].timing_cache` cannot be: timing cache `"),
        (
            "flavor: enterprise\n    architectures: native\n    compatible: [ampere-plus, same-compute-capability]",
            "the hardware is either of the two",
        ),
        ("flavor: enterprise\n    architectures: native\n    timing_cache: dist/t", "a timing cache"),
        ("flavor: enterprise\n    architectures: native\n    weights: stripped\nlayouts: [triton]", "write `weights: embedded`"),
    ] {
        let pipeline = host.pipeline(engine);
        let refused = host.run(None, &["build", text(&pipeline), "--plan-only"]).exits(2);
        assert!(refused.stderr.contains(said), "{engine}: {}", refused.stderr);
    }
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn plans_of_both_flavours_are_in_one_bundle() {
    let (host, h200) = (Host::new(), gpu("NVIDIA H200", "9.0"));
    let rtx = "architectures: [sm86]\n  - from: fp16\n    profiles: { decode: chat }";
    let pipeline = host.pipeline(&format!("{rtx}\n    {ENTERPRISE}"));
    let rtx = plansmith_engine::WorkerPaths::find(plansmith_engine::Flavor::Rtx, &Default::default()).unwrap();
    // Flags are of the flavour that most use.
    let flags = ["build", text(&pipeline), "--worker", text(&rtx.worker), "--tensorrt-dir", text(&rtx.libraries)];
    host.run(Some(&h200), &flags).exits(0);
    let manifest = json(&host.at("dist/manifest.json"));
    let plans: Vec<_> = manifest["plans"].as_array().unwrap().iter().map(|plan| plan["path"].as_str().unwrap()).collect();
    assert_eq!(plans, [format!("engines/rtx-{}/sm86/decode.plan", "1.7.1.116").as_str(), "engines/enterprise-11.4.0.106/sm90/decode.plan"]);
    let verdict = json(&host.at("dist/verdict.json"));
    let reasons: Vec<_> = verdict["candidates"].as_array().unwrap().iter().filter_map(|candidate| candidate["reason"].as_str()).collect();
    assert!(reasons.iter().any(|reason| reason.starts_with("it is scripted")), "{reasons:?}");
    host.run(None, &["check", text(&host.at("dist"))]).exits(0);
}
