//! The event stream of `build` and `merge`, as a CI system reads it.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::{Path, PathBuf};

use common::{Run, case, copy_files, plansmith, text};
use serde_json::Value;

const PIPELINE: &str =
    "name: tiny\nsource: { checkpoint: model }\nexport:\n  - { id: fp32 }\n  - { id: fp16, dtype: fp16 }\noutput: dist/tiny\n";

fn project() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    copy_files(&case("llama3_rope"), &folder.path().join("model"));
    let pipeline = folder.path().join("pipeline.yaml");
    std::fs::write(&pipeline, PIPELINE).unwrap();
    (folder, pipeline)
}

/// Every line, parsed, and what holds of every stream: keys of each line, time that only grows, stages that begin and end in pairs.
fn events(stream: &str) -> Vec<Value> {
    let lines: Vec<Value> =
        stream.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect();
    assert!(stream.ends_with('\n'));
    let (mut before, mut open) = (0.0, Vec::new());
    for line in &lines {
        assert_eq!(line["schema_version"], 1);
        assert!(line["time"].as_str().unwrap().ends_with('Z'), "{line}");
        let elapsed = line["elapsed_s"].as_f64().unwrap();
        assert!(elapsed >= before, "{line}");
        before = elapsed;
        let stage = line["stage"].as_str().unwrap_or_default().to_owned();
        match line["event"].as_str().unwrap() {
            "begin" => {
                assert!(!open.contains(&stage), "{line}");
                open.push(stage);
            }
            "end" => {
                let place = open.iter().position(|name| *name == stage).unwrap_or_else(|| panic!("{line}"));
                open.remove(place);
            }
            "progress" | "check" => assert!(open.contains(&stage), "{line}"),
            _ => {}
        }
    }
    assert_eq!(open, [""; 0], "stages that never ended");
    assert_eq!(lines[0]["event"], "start");
    let last = lines.iter().position(|line| line["event"] == "result" || line["event"] == "error").unwrap();
    assert_eq!(last, lines.len() - 1, "nothing comes after the result");
    lines
}

fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|line| line["event"] == kind).collect()
}

fn ends(events: &[Value]) -> Vec<(String, String)> {
    let word = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    of(events, "end").into_iter().map(|line| (word(line, "stage"), word(line, "result"))).collect()
}

fn build(pipeline: &Path, more: &[&str]) -> Run {
    plansmith(&[&["build", text(pipeline)][..], more].concat())
}

#[test]
fn a_build_tells_its_stages_bytes_checks_and_verdict() {
    let (folder, pipeline) = project();
    let run = build(&pipeline, &["--events", "-", "--json"]).exits(0);
    let result: Value = serde_json::from_str(&run.stdout).unwrap();
    let told = events(&run.stderr);
    assert_eq!((&told[0]["verb"], &told[0]["pipeline"]), (&"build".into(), &text(&pipeline).into()));
    let stages = ["export:fp32", "export:fp16", "verify", "bundle"];
    assert_eq!(of(&told, "stages")[0]["stages"], serde_json::json!(stages));
    let done = |name: &str| (name.to_owned(), "done".to_owned());
    assert_eq!(ends(&told), ["source", "export:fp32", "export:fp16", "verify", "bundle"].map(done));
    // Bytes reach their total, which is the size of the files that are read.
    let weights = folder.path().join("model/model.safetensors");
    let size = std::fs::metadata(&weights).unwrap().len();
    let header = u64::from_le_bytes(std::fs::read(&weights).unwrap()[..8].try_into().unwrap()) + 8;
    for (stage, bytes) in [("source", size), ("export:fp32", size), ("export:fp16", size - header)] {
        let last = *of(&told, "progress").iter().rfind(|line| line["stage"] == stage).unwrap();
        assert_eq!((last["done_bytes"].as_u64(), last["total_bytes"].as_u64()), (Some(bytes), Some(bytes)), "{last}");
    }
    assert!(of(&told, "check").iter().any(|line| line["what"] == "onnx/model_fp16.onnx on rten" && line["check"] == "decode"));
    let verdict = of(&told, "verdict")[0];
    assert_eq!(
        (&verdict["verdict"], &verdict["executed"], verdict["candidates"].as_array().unwrap().len()),
        (&"agree".into(), &2.into(), 2)
    );
    let last = told.last().unwrap();
    assert_eq!((&last["event"], &last["exit_code"], &last["result"]), (&"result".into(), &0.into(), &"built".into()));
    assert_eq!(last["manifest_sha256"], result["manifest_sha256"]);

    // Into a file, beside what people read; and what an earlier run wrote there is gone.
    let file = folder.path().join("events.jsonl");
    std::fs::write(&file, run.stderr.repeat(10)).unwrap();
    let run = build(&pipeline, &["--set", "export.1.logits=last", "--events", text(&file)]).exits(0);
    let told = events(&std::fs::read_to_string(&file).unwrap());
    assert_eq!(ends(&told)[1..3], [("export:fp32".into(), "taken_over".into()), done("export:fp16")]);
    assert!(run.stderr.contains("export:fp16 ") && !run.stderr.contains('{'), "{}", run.stderr);

    let run = build(&pipeline, &["--set", "export.1.logits=last", "--events", "-", "-v"]).exits(0);
    let told = events(&run.stderr);
    assert_eq!(told.last().unwrap()["result"], "up to date");
    let run = build(&pipeline, &["--events", "-", "--stage", "export:fp32", "--force", "-v"]).exits(0);
    let told = events(&run.stderr);
    assert_eq!(told.last().unwrap()["result"], "stopped");
    assert!(of(&told, "message").iter().any(|line| line["text"] == "export:fp32: begins"), "-v is in the stream");
}

#[test]
fn a_failed_build_ends_with_its_exit_code_and_an_error_with_its_hint() {
    let (folder, pipeline) = project();
    let golden = case("tied_flag_but_two_different").join("golden.safetensors");
    let set = format!("verify={{ golden: {} }}", text(&golden));
    let told = events(&build(&pipeline, &["--set", &set, "--events", "-"]).exits(1).stderr);
    assert_eq!(of(&told, "verdict")[0]["verdict"], "disagree");
    let last = told.last().unwrap();
    assert_eq!((&last["exit_code"], &last["result"]), (&1.into(), &"failed".into()));
    assert!(last["folder"].as_str().unwrap().ends_with("tiny.failed"));

    // A stage that fails ends before the error does.
    let weights = folder.path().join("model/model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&weights, bytes).unwrap();
    let file = folder.path().join("events.jsonl");
    let run = build(&pipeline, &["--events", text(&file)]).exits(2);
    let told = events(&std::fs::read_to_string(&file).unwrap());
    assert_eq!(ends(&told), [("source".to_owned(), "failed".to_owned())]);
    let last = told.last().unwrap();
    assert_eq!((&last["event"], &last["exit_code"]), (&"error".into(), &2.into()));
    for words in [&last["message"], &last["hint"]] {
        assert!(run.stderr.contains(words.as_str().unwrap()), "{words}: {}", run.stderr);
    }
    assert!(last["message"].as_str().unwrap().contains("not finite"), "{last}");

    let nowhere = folder.path().join("nowhere/events.jsonl");
    assert!(build(&pipeline, &["--events", text(&nowhere)]).exits(2).stderr.contains(text(&nowhere)));
    assert!(build(&pipeline, &["--events", "-", "--plan-only"]).exits(2).stderr.contains("--plan-only"));
}

#[test]
fn a_merge_tells_how_much_of_the_parts_is_hashed() {
    let (folder, pipeline) = project();
    let parts = ["fp32", "fp16"].map(|stage| {
        let part = folder.path().join(stage);
        let (stage, output) = (format!("export:{stage}"), format!("output={}", text(&part)));
        build(&pipeline, &["--only", &stage, "--set", &output, "-q"]).exits(0);
        part
    });
    let size = |part: &Path| {
        let files = std::fs::read_dir(part.with_added_extension("partial").join("onnx")).unwrap();
        files.map(|entry| entry.unwrap().metadata().unwrap().len()).sum::<u64>()
    };
    let total: u64 = parts.iter().map(|part| size(part)).sum();
    let run = plansmith(&["merge", text(&pipeline), text(&parts[0]), text(&parts[1]), "--events", "-"]).exits(0);
    let told = events(&run.stderr);
    assert_eq!(told[0]["verb"], "merge");
    let last = *of(&told, "progress").iter().rfind(|line| line["stage"] == "parts").unwrap();
    assert_eq!((last["done_bytes"].as_u64(), last["total_bytes"].as_u64()), (Some(total), Some(total)), "{last}");
    assert_eq!(told.last().unwrap()["result"], "built");

    let run =
        plansmith(&["merge", text(&pipeline), text(&folder.path().join("none")), "--set", "output=dist/other", "--events", "-"]).exits(2);
    let told = events(&run.stderr);
    assert_eq!(ends(&told).last().unwrap(), &("parts".to_owned(), "failed".to_owned()));
    assert_eq!(told.last().unwrap()["exit_code"], 2);
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_plan_s_worker_is_followed() {
    let (folder, pipeline) = project();
    let engines = "engines: [{ from: fp16, architectures: [sm86], profiles: { decode: { batch: 1, sequence: 1, past: [0, 8, 64] } } }]\n";
    std::fs::write(&pipeline, format!("{PIPELINE}{engines}")).unwrap();
    let file = folder.path().join("events.jsonl");
    build(&pipeline, &["--events", text(&file)]).exits(0);
    let told = events(&std::fs::read_to_string(&file).unwrap());
    let stage = "engine:fp16:sm86:decode";
    assert!(ends(&told).contains(&(stage.to_owned(), "done".to_owned())));
    assert!(of(&told, "worker")[0]["estimate_bytes"].as_u64().unwrap() > 0);
    let phases: Vec<&str> = of(&told, "phase").into_iter().map(|line| line["phase"].as_str().unwrap()).collect();
    assert!(["parse", "build", "write"].iter().all(|phase| phases.contains(phase)), "{phases:?}");
    let plan = of(&told, "plan")[0];
    assert_eq!((&plan["stage"], &plan["cached"]), (&stage.into(), &false.into()));
    let bytes = find_plan(&folder.path().join("dist/tiny/engines"));
    assert_eq!(
        (plan["bytes"].as_u64(), plan["sha256"].as_str().unwrap()),
        (Some(bytes.len() as u64), &*plansmith_files::Digest::of(&bytes).to_string())
    );
    let verdict = of(&told, "verdict")[0]["candidates"].as_array().unwrap();
    assert!(verdict.iter().any(|one| one["path"].as_str().unwrap().ends_with("decode.plan")), "{verdict:?}");
}

/// The bytes of the one plan below `folder`.
fn find_plan(folder: &Path) -> Vec<u8> {
    let mut found = None;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found = Some(find_plan(&path));
        } else if path.extension().is_some_and(|extension| extension == "plan") {
            found = Some(std::fs::read(&path).unwrap());
        }
    }
    found.unwrap()
}
