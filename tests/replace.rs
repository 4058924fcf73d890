//! What a verb is told to write to is another file than the user thinks: it is refused, and every byte stays.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::{Path, PathBuf};

use common::{Run, case, command, copy_files, names, plansmith, text};
use serde_json::{Map, Value, json};

/// A checkpoint of our own, a bundle made of it, and its pipeline.
fn project() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    copy_files(&case("llama3_rope"), &folder.path().join("model"));
    let pipeline = folder.path().join("p.yaml");
    std::fs::write(&pipeline, "name: tiny\nsource: { checkpoint: model }\nexport: [{ id: fp32 }]\noutput: dist\n").unwrap();
    let (model, pipeline) = (folder.path().join("model"), pipeline);
    (folder, model, pipeline)
}

/// Runs, is refused with `said`, and leaves `file` as it was.
fn refused(arguments: &[&str], file: &Path, said: &str) {
    let before = std::fs::read(file).ok();
    let Run { stderr, .. } = plansmith(arguments).exits(2);
    assert!(stderr.contains(said) && stderr.contains("hint: "), "{arguments:?}: {stderr}");
    assert!(std::fs::read(file).ok() == before, "{arguments:?} changed {}", file.display());
}

#[test]
fn no_verb_replaces_a_file_of_another_kind() {
    let (folder, model, pipeline) = project();
    let at = |name: &str| folder.path().join(name);
    let (key, prompts) = (at("key.pem"), at("prompts.jsonl"));
    std::fs::write(&key, "-----BEGIN PRIVATE KEY-----\n").unwrap();
    std::fs::write(&prompts, "{\"ids\": [1, 2, 3]}\n").unwrap();
    let (source, made) = (text(&model), text(&pipeline));
    let (weights, config, golden) = (model.join("model.safetensors"), model.join("config.json"), model.join("golden.safetensors"));
    for file in [&weights, &config, &golden, &key, &pipeline, &prompts] {
        refused(&["build", made, "--events", text(file)], file, "no event stream of plansmith");
        refused(&["verify", source, "--json", text(file)], file, "no verdict.json of plansmith");
        if *file != golden {
            refused(&["golden", source, "-o", text(file), "--prompts", text(&prompts)], file, "no golden file");
        }
    }
    for name in ["verdict.json", "report.html", "junit.xml"] {
        let report = at(&format!("report-{name}"));
        std::fs::create_dir(&report).unwrap();
        std::fs::write(report.join(name), "<html>mine</html>").unwrap();
        refused(&["verify", source, "--report", text(&report)], &report.join(name), name);
        assert_eq!(names(&report), [name]);
    }

    // What is ours, or empty, is written over.
    let (events, verdict, mine) = (at("events"), at("verdict"), at("golden"));
    for file in [&events, &verdict, &mine] {
        std::fs::write(file, "").unwrap();
    }
    for _ in 0..2 {
        plansmith(&["build", made, "--events", text(&events)]).exits(0);
        plansmith(&["golden", source, "-o", text(&mine), "--prompts", text(&prompts)]).exits(0);
        plansmith(&["verify", source, "--golden", text(&mine), "--json", text(&verdict), "--report", text(&at("report"))]).exits(0);
    }
    assert!(std::fs::read_to_string(&events).unwrap().ends_with('\n'));
    plansmith(&["build", made, "--events", "/dev/null"]).exits(0);

    // Nothing is put into a bundle, nor into the folder that becomes one.
    let bundle = at("dist");
    plansmith(&["build", made, "--stage", "export", "--force"]).exits(0);
    for to in [bundle.clone(), at("dist.partial")] {
        let said = "which builds make and replace as a whole";
        refused(&["build", made, "--events", text(&to.join("events"))], &to.join("events"), said);
        refused(&["verify", source, "--report", text(&to)], &to.join("verdict.json"), said);
        refused(&["verify", source, "--json", text(&to.join("verdict.json"))], &to.join("verdict.json"), said);
        refused(&["golden", source, "-o", text(&to.join("golden.safetensors"))], &to.join("golden.safetensors"), said);
        refused(&["export", source, "-o", text(&to.join("onnx"))], &to.join("onnx/model.onnx"), said);
        refused(&["export", source, "-o", text(&to.join("new/one"))], &to.join("new"), said);
        let graph = bundle.join("onnx/model.onnx");
        let plans = to.join("engines");
        refused(&["engine", text(&graph), "-o", text(&plans), "--arch", "sm86", "--profile", "chat"], &plans, said);
        refused(&["import", "testdata/gguf/tiny.gguf", "-o", text(&to.join("model"))], &to.join("model"), said);
    }
    // Nor where the next build looks for what nobody else may have put there, be it there or not.
    std::fs::remove_dir_all(at("dist.partial")).unwrap();
    let graph = bundle.join("onnx/model.onnx");
    for to in ["dist.partial", "dist.failed/plans"].map(at) {
        refused(&["engine", text(&graph), "-o", text(&to), "--arch", "sm86", "--profile", "chat"], &to, "which builds make and replace");
        assert!(!to.exists());
    }
    plansmith(&["check", text(&bundle)]).exits(0);
}

#[test]
fn reports_of_an_earlier_run_do_not_outlive_one_that_fails() {
    let (folder, model, _) = project();
    let (report, verdict) = (folder.path().join("report"), folder.path().join("verdict.json"));
    let arguments = ["verify", text(&model), "--report", text(&report), "--json", text(&verdict)];
    plansmith(&arguments).exits(0);
    assert_eq!(names(&report), ["junit.xml", "report.html", "verdict.json"]);
    std::fs::write(report.join("notes.txt"), "mine").unwrap();
    let weights = std::fs::OpenOptions::new().write(true).open(model.join("model.safetensors")).unwrap();
    weights.set_len(weights.metadata().unwrap().len() - 4).unwrap();
    plansmith(&arguments).exits(2);
    assert_eq!(names(&report), ["notes.txt"]);
    assert!(!verdict.exists());
}

/// The same model with other values.
fn other_weights(from: &Path, to: &Path) {
    copy_files(from, to);
    let path = to.join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    bytes[half..half + 4096].fill(0x3c);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn an_export_leaves_other_checkpoints_and_other_graphs_as_they_are() {
    let (folder, model, _) = project();
    let at = |name: &str| folder.path().join(name);
    let (source, other) = (text(&model), at("other"));
    other_weights(&model, &other);

    // A checkpoint whose shard has the name that a conversion writes.
    let sharded = at("sharded");
    copy_files(&other, &sharded);
    let shard = sharded.join("model_fp16.safetensors");
    std::fs::rename(sharded.join("model.safetensors"), &shard).unwrap();
    let bytes = std::fs::read(&shard).unwrap();
    let header = &bytes[8..8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize];
    let header: Map<String, Value> = serde_json::from_slice(header).unwrap();
    let map: Map<String, Value> =
        header.keys().filter(|key| *key != "__metadata__").map(|key| (key.clone(), "model_fp16.safetensors".into())).collect();
    std::fs::write(sharded.join("model.safetensors.index.json"), json!({ "metadata": {}, "weight_map": map }).to_string()).unwrap();
    refused(&["export", source, "-o", text(&sharded), "--dtype", "fp16"], &shard, "would be replaced");

    // The config.json of a checkpoint, one's own too.
    for to in [&other, &sharded, &model] {
        refused(&["export", source, "-o", text(to), "--layout", "clients"], &to.join("config.json"), "holds a checkpoint");
        assert!(!to.join("onnx").exists());
    }

    // What a graph that stays computes with: copied and converted.
    for dtype in ["source", "fp16"] {
        let out = at(&format!("out-{dtype}"));
        let export = |checkpoint: &Path, more: &[&str]| {
            let arguments = ["export", text(checkpoint), "-o", text(&out), "--dtype", dtype];
            [&arguments[..], more].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let of = |arguments: &[String]| plansmith(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        of(&export(&model, &[])).exits(0);
        let weights = out.join(if dtype == "fp16" { "model_fp16.safetensors" } else { "model.safetensors" });
        let before = std::fs::read(&weights).unwrap();
        let form = ["--kv", "static", "--max-length", "16"];
        let run = of(&export(&other, &form)).exits(2);
        assert!(run.stderr.contains("computes with it") && run.stderr.contains("hint: "), "{}", run.stderr);
        assert_eq!((std::fs::read(&weights).unwrap() == before, names(&out).len()), (true, 2), "{:?}", names(&out));
        // The same weights serve both graphs; and a graph alone is replaced with its weights.
        let run = of(&export(&model, &form)).exits(0);
        assert!(run.stdout.contains(text(&weights)), "{}", run.stdout);
        assert_eq!(names(&out).len(), 3, "{:?}", names(&out));
        let graph = names(&out).into_iter().find(|name| name.contains("_static")).unwrap();
        plansmith(&["verify", source, "--onnx", text(&out.join(&graph))]).exits(0);
        std::fs::remove_file(out.join(graph)).unwrap();
        of(&export(&other, &[])).exits(0);
        assert!(std::fs::read(&weights).unwrap() != before);
    }

    // Again where it was written: converted in the checkpoint's own folder, and for clients.
    for _ in 0..2 {
        plansmith(&["export", source, "-o", source, "--dtype", "fp16"]).exits(0);
        plansmith(&["export", source, "-o", text(&at("served")), "--layout", "clients"]).exits(0);
    }
}

#[test]
fn flags_that_would_be_ignored_are_refused() {
    let (_folder, model, pipeline) = project();
    let made = text(&pipeline);
    let refuse = |arguments: &[&str], said: &str| {
        let run = plansmith(arguments).exits(2);
        assert!(run.stderr.contains(said) && run.stdout.is_empty(), "{arguments:?}: {}{}", run.stdout, run.stderr);
    };
    for (flag, value) in [
        ("--stage", Some("export")),
        ("--only", Some("export:fp32")),
        ("--plan-only", None),
        ("--force", None),
        ("--json", None),
        ("--cache", Some("plans")),
        ("--no-cache", None),
        ("--jobs", Some("2")),
        ("--max-memory", Some("1G")),
        ("--timeout", Some("9")),
    ] {
        let arguments: Vec<&str> = ["build", made, "--emit", "make", flag].into_iter().chain(value).collect();
        refuse(&arguments, flag);
    }
    refuse(&["export", text(&model), "-o", text(&model), "--text", "--json"], "cannot be used with");

    // Stages by name: what would run, and no other.
    refuse(&["build", made, "--plan-only", "--stage", "nonsense"], "no stage is called `nonsense`");
    refuse(&["build", made, "--plan-only", "--only", "nonsense"], "no stage is called `nonsense`");
    let listed = |flag: &str, stage: &str| plansmith(&["build", made, "--plan-only", flag, stage]).exits(0).stdout;
    assert_eq!(listed("--only", "export:fp32"), "run    export:fp32\n");
    assert_eq!(listed("--stage", "verify"), "run    export:fp32\nrun    verify\n");

    // The result is told last, and only where it reached stdout.
    let run = command(&["build", made, "--events", "-", "--json"]).stdout(std::fs::File::create("/dev/full").unwrap()).output().unwrap();
    let told: Vec<Value> = run.stderr.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let count = |kind: &str| told.iter().filter(|line| line["event"] == kind).count();
    assert_eq!((run.status.code(), count("result"), count("error")), (Some(2), 0, 1));
    assert_eq!(told.last().unwrap()["event"], "error");

    let bundle = pipeline.with_file_name("dist");
    plansmith(&["verify", "--bundle", text(&bundle)]).exits(0);
    for (flag, value) in [("--max-length", "5"), ("--allow-unknown-config", "x")] {
        refuse(&["verify", "--bundle", text(&bundle), flag, value], flag);
    }
}

#[test]
fn a_configuration_for_triton_that_somebody_tuned_is_left() {
    let (folder, model, _) = project();
    let out = folder.path().join("repository");
    let arguments = ["export", text(&model), "-o", text(&out), "--layout", "triton"];
    plansmith(&arguments).exits(0);
    let config = out.join("model/config.pbtxt");
    let ours = std::fs::read_to_string(&config).unwrap();
    plansmith(&[&arguments[..], &["--dtype", "fp16"]].concat()).exits(0);
    for tuned in [format!("{ours}instance_group [ {{ count: 2 }} ]\n"), ours.replace("max_batch_size: 0", "max_batch_size: 8")] {
        std::fs::write(&config, &tuned).unwrap();
        refused(&arguments, &config, "no config.pbtxt as plansmith writes it");
    }
    std::fs::remove_file(&config).unwrap();
    plansmith(&arguments).exits(0);
    assert_eq!(std::fs::read_to_string(&config).unwrap(), ours);
}
