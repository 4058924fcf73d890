//! Whole messages, exit codes, and manners.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::process::Stdio;

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
    assert!(run.stderr.contains("holds weights of the source"), "{}", run.stderr);
}

#[test]
fn a_golden_of_other_weights_is_a_disagreement_of_oracles() {
    let golden = case("tied_flag_but_two_different").join("golden.safetensors");
    let run = plansmith(&["verify", text(&case("linear_rope")), "--golden", text(&golden)]).exits(1);
    assert!(run.stdout.contains("config.json was misread or the golden is of other weights"), "{}", run.stdout);
}
