//! Whole messages, exit codes, and manners.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{case, command, copy_files, plansmith, text};

#[test]
fn an_error_names_both_sides_and_the_next_step() {
    let run = plansmith(&["verify", "testdata/cases/wrong_shape_tensor"]).exits(2);
    insta::assert_snapshot!(run.stderr, @r"
    error: cannot bind weight `model.layers.1.self_attn.k_proj.weight`: its shape is [64, 64]; config.json implies [32, 64] (num_key_value_heads 2 × head_dim 16 by hidden_size 64)

    hint: config.json belongs to another checkpoint, or a size in it was edited
    ");
    let run = plansmith(&["export", "testdata/cases/unsupported_family", "-o", "/nonexistent"]).exits(2);
    insta::assert_snapshot!(run.stderr, @r"
    error: model_type `mamba` is not supported

    hint: `plansmith families` lists what is supported
    ");
}

#[test]
fn inspect_says_what_a_checkpoint_is() {
    let run = plansmith(&["inspect", "testdata/cases/untied_distinct"]).exits(0);
    insta::assert_snapshot!(run.stdout, @r"
    testdata/cases/untied_distinct: checkpoint, 21 tensors in 1 files, 380.3 kB
      21 tensors F32, 378.1 kB
      llama (LlamaForCausalLM)
      2 layers, hidden_size 64, 4 heads and 2 kv_heads of head_dim 16, vocab 256, 4096 positions
    ");
    let json = plansmith(&["inspect", "testdata/cases/untied_distinct", "--json"]).exits(0);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["spec"]["kv_heads"], 2);
    assert_eq!(json["tensors"].as_array().unwrap().len(), 21);
}

#[test]
fn every_verb_has_help_with_an_example() {
    let help = plansmith(&["--help"]).exits(0);
    for verb in [
        "build",
        "inspect",
        "import",
        "export",
        "engine",
        "verify",
        "golden",
        "compare",
        "run",
        "bench",
        "check",
        "doctor",
        "families",
        "completions",
        "man",
    ] {
        assert!(help.stdout.contains(verb));
        let run = plansmith(&[verb, "--help"]).exits(0);
        assert!(run.stdout.contains("Example"), "{verb}: {}", run.stdout);
    }
    plansmith(&["export"]).exits(2);
    plansmith(&["no-such-verb"]).exits(2);
    assert!(plansmith(&["completions", "bash"]).exits(0).stdout.contains("plansmith"));
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let mut child = command(&["inspect", "testdata/cases/untied_distinct", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    // What differs differs, whether or not somebody reads of it.
    let [one, two] = ["linear_rope", "fp16_overflow"].map(case);
    let golden = two.join("golden.safetensors");
    for arguments in
        [&["verify", text(&one), "--golden", text(&golden)][..], &["verify", text(&one), "--golden", text(&golden), "--json", "-"]]
    {
        let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn a_golden_of_the_reference_agrees_with_itself_and_not_with_another() {
    let folder = tempfile::tempdir().unwrap();
    let golden = |name: &str, file: &str| {
        let path = folder.path().join(file);
        plansmith(&["golden", text(&case(name)), "-o", text(&path)]).exits(0);
        path
    };
    let (one, two) = (golden("linear_rope", "one"), golden("llama3_rope", "two"));
    plansmith(&["compare", text(&one), text(&one)]).exits(0);
    let run = plansmith(&["compare", text(&one), text(&two)]).exits(1);
    assert!(run.stdout.ends_with("the files differ\n"), "{}", run.stdout);
    let other_prompts = case("linear_rope").join("golden.safetensors");
    plansmith(&["compare", text(&one), text(&other_prompts)]).exits(2);
    let model = folder.path().join("model");
    copy_files(&case("linear_rope"), &model);
    let run = plansmith(&["golden", text(&model), "-o", text(&model.join("model.safetensors"))]).exits(2);
    assert!(run.stderr.contains("would be replaced, and is no golden file"), "{}", run.stderr);
}

#[test]
fn a_golden_of_other_weights_is_a_disagreement_of_oracles() {
    let golden = case("tied_flag_but_two_different").join("golden.safetensors");
    let run = plansmith(&["verify", text(&case("linear_rope")), "--golden", text(&golden)]).exits(1);
    assert!(run.stdout.contains("config.json was misread or the golden is of other weights"), "{}", run.stdout);
}

/// Whoever takes the wrong path is told the right one.
#[test]
fn what_is_passed_in_error_leads_to_what_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    copy_files(&case("llama3_rope"), &at("model"));
    plansmith(&["sign", "--new-key", text(&at("key.pem"))]).exits(0);
    std::fs::create_dir(at("plans")).unwrap();
    std::fs::write(at("plans/chat.json"), "{}").unwrap();
    let hint = |arguments: &[&str], wanted: &str| {
        let run = plansmith(arguments).exits(2);
        let hint = run.stderr.split("hint: ").nth(1).unwrap_or_else(|| panic!("no hint: {}", run.stderr));
        assert!(hint.contains(wanted), "{}", run.stderr);
    };
    let profile = |name: &str| [name.to_owned(), ":batch=1,sequence=1,past=0..4..8".to_owned()].concat();
    let (model, pipeline) = (at("model"), at("pipeline.yaml"));
    let engine = |onnx: &str, profiles: [&str; 2], wanted: &str| {
        hint(&["engine", onnx, "--arch", "sm89", "--dry-run", "--profile", profiles[0], "--profile", profiles[1]], wanted);
    };
    engine(text(&model), ["chat", "batch"], "--dtype fp16 --dialect tensorrt` writes one");
    plansmith(&["export", text(&model), "-o", text(&at("out")), "--dtype", "fp16", "--dialect", "tensorrt"]).exits(0);
    engine(text(&at("out")), ["chat", "batch"], "out/model_fp16.onnx");
    let graph = at("out/model_fp16.onnx");
    engine(text(&graph), ["chat", "chat"], "--profile NAME:chat");
    engine(text(&graph), ["chat", &profile("a/b")], "rename it");
    hint(&["check", text(&model)], "the folder that `plansmith build` wrote");
    hint(&["sign", text(&model), "--key", text(&at("key.pem"))], "the folder that `plansmith build` wrote");
    hint(&["inspect", text(&at("plans"))], "name one");
    hint(&["inspect", text(&at("plans/chat.json"))], "name a checkpoint's folder");
    hint(&["inspect", text(&model.join("config.json"))], "plansmith inspect ");
    std::fs::write(at("plans/chat.plan"), "").unwrap();
    hint(&["inspect", text(&at("plans/chat.json"))], "plans/chat.plan` shows");
    hint(&["export", text(&model), "-o", text(&at("other")), "--dialect", "onnxruntime", "--opset", "21"], "leave --opset out");
    std::fs::remove_file(model.join("tokenizer.json")).ok();
    let run = plansmith(&["run", text(&graph), "--prompt", "1 2 3", "--token-ids"]).exits(2);
    assert!(run.stderr.ends_with("hint: copy the checkpoint's tokenizer.json there\n"), "{}", run.stderr);
    let text_of = "name: tiny\nsource: { checkpoint: nowhere }\nexport: [{ id: fp32 }]\noutput: dist/tiny\n";
    std::fs::write(&pipeline, text_of).unwrap();
    hint(&["build", text(&pipeline)], "source.checkpoint=DIR");
}

/// The worker may be missing alone, and what else is there is told all the same.
#[test]
fn the_doctor_looks_for_libraries_and_gpu_without_a_worker() {
    let folder = tempfile::tempdir().unwrap();
    let doctor = || {
        let mut command = command(&["doctor"]);
        command.env("PLANSMITH_WORKER_RTX", "/nowhere").env("PLANSMITH_WORKER_ENTERPRISE", "/nowhere");
        common::run(command.env("PLANSMITH_TENSORRT_RTX_DIR", folder.path())).exits(0).stdout
    };
    let none = doctor();
    assert!(none.contains("worker `plansmith-worker-rtx` not found") && none.contains("(libtensorrt_rtx.so.1 and "), "{none}");
    assert!(none.contains("no  gpu           only a worker can ask CUDA for one"), "{none}");
    for name in ["libtensorrt_rtx.so.1", "libtensorrt_onnxparser_rtx.so.1"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let found = doctor();
    assert!(found.contains(&format!("its libraries are at {}", folder.path().display())), "{found}");
}

/// Everything but `fetch`, where there is no network at all.
#[test]
fn no_verb_but_fetch_needs_a_network() {
    let folder = tempfile::tempdir().unwrap();
    common::copy_files(&case("llama3_rope"), &folder.path().join("model"));
    let pipeline = "name: tiny\nsource: { checkpoint: model }\nexport: [{ id: fp32 }]\noutput: dist/tiny\n";
    std::fs::write(folder.path().join("pipeline.yaml"), pipeline).unwrap();
    let script = "
        plansmith --offline build pipeline.yaml --events events.jsonl
        plansmith build pipeline.yaml --only export:fp32 --set output=$PWD/part
        plansmith merge pipeline.yaml part --set output=$PWD/merged --offline
        plansmith sign --new-key key.pem
        plansmith sign dist/tiny --key key.pem
        plansmith check dist/tiny --key key.pem.pub --against model
        plansmith verify --bundle merged
        plansmith verify model --golden model/golden.safetensors
        plansmith export model -o out --layout clients
        plansmith golden model -o golden.safetensors
        plansmith compare golden.safetensors golden.safetensors
        plansmith inspect dist/tiny/onnx/model.onnx
        plansmith bench out/onnx/model.onnx --prefill 4 --decode 2
        plansmith doctor
        plansmith families
        echo all of them";
    let run = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "sh", "-ec", script]).current_dir(folder.path());
        let bin = Path::new(env!("CARGO_BIN_EXE_plansmith")).parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap();
        command.env("PATH", std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path))).unwrap());
        common::run(&mut command)
    };
    let alone = run("true");
    if alone.code != Some(0) {
        println!("no namespace of our own: {}", alone.stderr);
        return;
    }
    assert!(run(script).exits(0).stdout.ends_with("all of them\n"));
    // The one that does, and does not reach anything there.
    let fetch = format!("plansmith fetch org/name@{} -o fetched --timeout 1", "0".repeat(40));
    assert!(run(&fetch).exits(2).stderr.contains("could not be fetched"));
}
