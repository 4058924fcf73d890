//! Plans as a release builds them: foreseen, many at once, cached, stopped.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{case, command, copy_files, names, plansmith, run, text};
use plansmith_engine::Flavor;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A graph of a tiny checkpoint: two layers, two key/value heads of 16, 256 tokens of vocabulary, 4096 positions.
fn graph(folder: &Path, dtype: &str) -> PathBuf {
    let out = folder.join(dtype);
    plansmith(&["export", text(&case("llama3_rope")), "-o", text(&out), "--dialect", "tensorrt", "--dtype", dtype]).exits(0);
    let name = names(&out).into_iter().find(|name| name.ends_with(".onnx")).unwrap();
    out.join(name)
}

const PROFILE: &str = "decode:batch=1..4..8,sequence=1,past=0..512..2048";

#[test]
fn a_dry_run_says_everything_and_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let graph = graph(folder.path(), "bf16");
    let arguments = ["engine", text(&graph), "--arch", "sm80,sm120", "--profile", PROFILE, "--profile", "chat", "--dry-run"];
    let without_worker = |more: &[&str]| {
        let arguments: Vec<&str> = arguments.iter().chain(more).copied().collect();
        run(command(&arguments).env("PLANSMITH_WORKER_RTX", "/nowhere").env("PLANSMITH_TENSORRT_RTX_DIR", "/nowhere"))
    };
    let said = without_worker(&[]).exits(0).stdout;
    assert!(said.contains("attention_mask: [1, 1] .. [4, 513] .. [8, 2049]"), "{said}");
    assert!(said.contains("past_key_values.0.key and 3 more: [1, 2, 0, 16] .. [4, 2, 512, 16] .. [8, 2, 2048, 16]"), "{said}");
    assert!(said.contains("sm120: takes every element type"), "{said}");

    let plans: Value = serde_json::from_str(&without_worker(&["--arch-as", "one-plan", "--json"]).exits(0).stdout).unwrap();
    assert_eq!(plans.as_array().unwrap().len(), 2);
    assert_eq!(plans[1]["plan"], "sm80+sm120/chat.plan");
    assert_eq!(plans[1]["profiles"][0]["profile"]["past"], serde_json::json!([0, 1024, 4095]));
    let memory = &plans[0]["profiles"][0]["memory"];
    // Four caches of 8 rows × 2 heads × 2048 × 16 in bf16, and one token more; 8 × 1 × 256 logits in fp32; a mask of two bytes for 8 rows,
    // one token, the 2049 that it sees, and each of two key heads.
    let bytes = ["past", "present", "logits", "masks"].map(|part| memory[part].as_u64().unwrap());
    assert_eq!(bytes, [4_194_304, 4_196_352, 8192, 65_568]);
    assert_eq!(names(folder.path()), ["bf16"]);

    let refused = without_worker(&["--arch", "sm75"]).exits(2);
    assert!(
        refused.stdout.contains("sm75 has no BF16") && refused.stderr.contains("sm75 has no BF16"),
        "{}{}",
        refused.stdout,
        refused.stderr
    );
    let long = ["engine", text(&graph), "--arch", "sm80", "--profile", "p:batch=1,sequence=1,past=0..1..4096", "--dry-run"];
    let long = plansmith(&long).exits(2).stderr;
    assert!(long.contains("past 4096 before sequence 1 is 4097 tokens; the longest is 4096"), "{long}");
}

#[test]
fn a_path_that_is_not_utf8_is_shown_as_far_as_it_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let graph = graph(folder.path(), "fp16");
    let alien = folder.path().join(OsStr::from_bytes(b"o\xff"));
    let dry_run = |graph: &Path| {
        let arguments = ["--arch", "sm86", "--profile", "chat", "--dry-run", "--json", "-o"];
        run(command(&["engine"]).arg(graph).args(arguments).arg(&alien))
    };
    let plans: Value = serde_json::from_str(&dry_run(&graph).exits(0).stdout).unwrap();
    assert!(plans[0]["plan"].as_str().unwrap().ends_with("/o\u{fffd}/sm86/chat.plan"), "{plans}");
    // The worker is told the graph's name, so this one cannot be built.
    let named = graph.with_file_name(OsStr::from_bytes(b"bad\xff.onnx"));
    std::fs::rename(&graph, &named).unwrap();
    assert!(dry_run(&named).exits(2).stderr.contains("its name is not UTF-8"));

    copy_files(&case("llama3_rope"), &alien.join("model"));
    let pipeline = alien.join("p.yaml");
    std::fs::write(&pipeline, "name: tiny\nsource: { checkpoint: model }\nexport: [{ id: fp32 }]\noutput: dist\n").unwrap();
    let events = folder.path().join("events");
    let json = |verb: &[&str], path: &Path, more: &[&str]| -> Value {
        serde_json::from_str(&run(command(verb).arg(path).args(more)).exits(0).stdout).unwrap()
    };
    let stopped = json(&["build", "--json", "--stage", "export"], &pipeline, &[]);
    assert!(stopped["folder"].as_str().unwrap().ends_with("/o\u{fffd}/dist.partial"), "{stopped}");
    let built = json(&["build", "--json"], &pipeline, &["--events", text(&events)]);
    assert!(built["bundle"].as_str().unwrap().ends_with("/o\u{fffd}/dist"), "{built}");
    let told = std::fs::read_to_string(&events).unwrap();
    let of = |event: &str| told.lines().any(|line| line.contains(&format!("\"event\":\"{event}\"")) && line.contains("/o\u{fffd}/"));
    assert!(of("start") && of("result"), "{told}");
    let exported = json(&["export", "--json"], &alien.join("model"), &["-o", text(&folder.path().join("out"))]);
    assert!(exported["graph"].as_str().unwrap().ends_with("/out/model.onnx"), "{exported}");
    let exported = json(&["export", "--json", text(&case("llama3_rope")), "-o"], &alien.join("out"), &[]);
    assert!(exported["graph"].as_str().unwrap().ends_with("/o\u{fffd}/out/model.onnx"), "{exported}");
    let key = json(&["sign", "--json", "--new-key"], &alien.join("key"), &[]);
    assert!(key["public_key"].as_str().unwrap().ends_with("/o\u{fffd}/key.pub"), "{key}");
    let imported = json(&["import", "--json", "testdata/gguf/tiny.gguf", "-o"], &alien.join("imported"), &[]);
    assert!(imported["folder"].as_str().unwrap().ends_with("/o\u{fffd}/imported"), "{imported}");
}

/// Graphs are hashed before workers run, and nobody looks at a wish to stop.
#[test]
fn ctrl_c_ends_it_while_it_hashes() {
    let folder = tempfile::tempdir().unwrap();
    let graph = graph(folder.path(), "fp16");
    let data = graph.with_extension("safetensors");
    std::fs::File::options().write(true).open(&data).unwrap().set_len(64 << 30).unwrap();
    let libraries = folder.path().join("libraries");
    std::fs::create_dir(&libraries).unwrap();
    Flavor::Rtx.libraries().iter().for_each(|name| std::fs::write(libraries.join(name), "").unwrap());
    let (out, tools) = (folder.path().join("plans"), ["--worker", "/bin/true", "--tensorrt-dir", text(&libraries)]);
    let arguments = ["engine", text(&graph), "-o", text(&out), "--arch", "sm86", "--profile", "chat", "--no-cache"];
    let mut child = command(&[&arguments[..], &tools].concat()).spawn().unwrap();
    let open = format!("/proc/{}/fd", child.id());
    let data = std::fs::canonicalize(data).unwrap();
    let hashes = || std::fs::read_dir(&open).unwrap().flatten().any(|file| std::fs::read_link(file.path()).is_ok_and(|file| file == data));
    while !hashes() {
        assert_eq!(child.try_wait().unwrap(), None, "it ends before it hashes");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
    assert!(!out.exists());
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_time_out_beyond_the_clock_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let (graph, out) = (graph(folder.path(), "fp16"), folder.path().join("plans"));
    let arguments = ["engine", text(&graph), "-o", text(&out), "--arch", "sm86", "--profile", PROFILE, "--timeout", "18446744073709551615"];
    plansmith(&arguments).exits(0);
}

/// Nothing is exported, nor a worker looked for, for a profile that no step fits.
#[test]
fn a_profile_beyond_the_source_s_length_is_refused_first() {
    let folder = tempfile::tempdir().unwrap();
    let pipeline = matrix(folder.path());
    let pinned = |set: &str| {
        let mut command = command(&["build", text(&pipeline), "--set", set]);
        run(command.env("PLANSMITH_WORKER_RTX", "/nowhere").env("PLANSMITH_TENSORRT_RTX_DIR", "/nowhere")).exits(2).stderr
    };
    let said = pinned("source.max_length=64");
    assert!(said.contains("engines.profiles") && said.contains("past 64 before sequence 1 is 65 tokens; the longest is 64"), "{said}");
    assert_eq!(names(folder.path()), ["model", "pipeline.yaml"]);
    let said = pinned("source.max_length=65");
    assert!(!said.contains("the longest is"), "{said}");
}

/// A runner that only exports needs no TensorRT, nor does who lists or emits.
#[test]
fn without_a_worker_stages_are_listed_emitted_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let pipeline = matrix(folder.path());
    let without = |more: &[&str], code| {
        let mut command = command(&[&["build", text(&pipeline)], more].concat());
        run(command.env("PLANSMITH_WORKER_RTX", "/nowhere").env("PLANSMITH_TENSORRT_RTX_DIR", "/nowhere")).exits(code)
    };
    let refused = without(&[], 2).stderr;
    assert!(refused.contains("`engine:fp16:sm86:decode` cannot be built: ") && refused.contains("/nowhere"), "{refused}");
    assert!(refused.contains("`--stage export` builds the graphs without it"), "{refused}");
    assert_eq!(names(folder.path()), ["model", "pipeline.yaml"]);
    let listed = without(&["--plan-only"], 0).stdout;
    assert!(listed.contains("run    export:fp16\n") && listed.contains("run    engine:bf16:sm120:decode\n"), "{listed}");
    assert!(without(&["--emit", "make"], 0).stdout.contains("engine:bf16:sm120:decode"));
    without(&["--only", "export:fp16", "--set", &format!("output={}", text(&folder.path().join("part")))], 0);
    without(&["--stage", "export"], 0);
    let listed = without(&["--plan-only"], 0).stdout;
    assert!(listed.contains("cached export:fp16\ncached export:bf16\nrun    engine:fp16:sm86:decode\n"), "{listed}");
}

/// Two graphs for two architectures: four plans.
fn matrix(folder: &Path) -> PathBuf {
    copy_files(&case("llama3_rope"), &folder.join("model"));
    let engines = |from: &str| {
        format!(
            "  - {{ from: {from}, architectures: [sm86, sm120], profiles: {{ decode: {{ batch: 1, sequence: 1, past: [0, 8, 64] }} }} }}\n"
        )
    };
    let pipeline = folder.join("pipeline.yaml");
    let text = format!(
        "name: tiny\nsource: {{ checkpoint: model }}\nexport:\n  - {{ id: fp16, dtype: fp16 }}\n  - {{ id: bf16, dtype: bf16 }}\nengines:\n{}{}output: dist/tiny\n",
        engines("fp16"),
        engines("bf16")
    );
    std::fs::write(&pipeline, text).unwrap();
    pipeline
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_matrix_is_built_once_and_then_taken_from_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let (pipeline, cache, bundle) = (matrix(folder.path()), folder.path().join("cache"), folder.path().join("dist/tiny"));
    let build = |more: &[&str]| {
        let arguments = ["build", text(&pipeline), "--cache", text(&cache)];
        run(&mut command(&[&arguments, more].concat())).exits(0)
    };
    build(&[]);
    let plans = ["sm120", "sm120-bf16", "sm86", "sm86-bf16"];
    let engines = bundle.join("engines").join(names(&bundle.join("engines")).remove(0));
    assert_eq!(names(&engines), plans);
    let read = |plan: &str| std::fs::read(engines.join(plan).join("decode.plan")).unwrap();
    let first = plans.map(read);

    // Without a bundle the graphs are exported again, and no plan is built.
    std::fs::remove_dir_all(&bundle).unwrap();
    let second = build(&[]).stderr;
    let taken = second.lines().filter(|line| line.starts_with("engine:") && line.ends_with("taken over"));
    assert_eq!(taken.count(), 4, "{second}");
    assert!(plans.map(read) == first, "the same bytes");
    assert!(build(&[]).stdout.contains("up to date"));
    plansmith(&["check", text(&bundle)]).exits(0);

    // Anew, without the cache.
    if inspected(&engines.join("sm86/decode.plan"))["manifest"]["reproducible"]["not-tried"]["randomised_addresses"] == "off" {
        build(&["--force"]);
        assert!(plans.map(read) == first, "plans are reproducible");
    }
}

fn inspected(plan: &Path) -> Value {
    serde_json::from_str(&plansmith(&["inspect", text(plan), "--json"]).exits(0).stdout).unwrap()
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn ctrl_c_ends_workers_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (graph, out, cache) = (graph(folder.path(), "fp16"), folder.path().join("plans"), folder.path().join("cache"));
    let arguments = ["-v", "engine", text(&graph), "-o", text(&out), "--arch", "sm86,sm120", "--profile", PROFILE, "--cache", text(&cache)];
    let mut child = command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("build: begins") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ends before it builds");
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{rest}");
    assert!(rest.contains("error: stopped while building"), "{rest}");
    assert!(!out.exists());
    assert!(!cache.exists(), "nothing was kept");
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn profiles_and_architectures_become_one_plan() {
    let folder = tempfile::tempdir().unwrap();
    let (graph, out) = (graph(folder.path(), "fp16"), folder.path().join("plans"));
    let profiles = ["--profile", "prefill:batch=1,sequence=1..16..64,past=0", "--profile", "decode:batch=1,sequence=1,past=0..16..64"];
    let build = |how: &str| {
        let arguments = ["engine", text(&graph), "-o", text(&out), "--arch", "sm86,sm89", "--arch-as", "one-plan", "--profiles-as", how];
        plansmith(&[&arguments, &profiles[..]].concat()).exits(0);
    };
    build("one-plan");
    build("one-dynamic");
    assert_eq!(names(&out), ["sm86+sm89"]);
    let folder = out.join("sm86+sm89");
    let both = inspected(&folder.join("prefill+decode.plan"));
    assert_eq!(both["architectures"], serde_json::json!(["sm86", "sm89"]));
    let ranges = |index: usize| both["manifest"]["profiles"][index]["profile"].clone();
    assert_eq!(ranges(0)["past"], serde_json::json!([0, 0, 1]));
    assert_eq!(ranges(1)["sequence"], serde_json::json!([1, 1, 2]));
    assert_eq!(both["manifest"]["cost"]["profiles_as"], "one-plan");
    let one = inspected(&folder.join("prefill-or-decode.plan"));
    assert_eq!(one["manifest"]["profiles"][0]["profile"]["sequence"], serde_json::json!([1, 1, 64]));
    assert_eq!(one["manifest"]["cost"]["profiles_as"], "one-dynamic");

    assert_eq!(one["manifest_matches"], true);
    let other = folder.join("prefill-or-decode.json");
    std::fs::copy(folder.join("prefill+decode.json"), &other).unwrap();
    assert_eq!(inspected(&folder.join("prefill-or-decode.plan"))["manifest_matches"], false);
    std::fs::remove_file(&other).unwrap();
    assert_eq!(inspected(&folder.join("prefill-or-decode.plan"))["manifest_matches"], Value::Null);
}
