//! Graphs of other exporters, verified as a user does it.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use common::{Run, plansmith};
use serde_json::Value;

const EXPORTED: &str = "testdata/runtime/exported";
const OPAQUE: [&str; 4] = ["verify", "testdata/runtime/f32", "--onnx", "testdata/runtime/f32/opaque.onnx"];

/// Verifies a graph of `testdata/runtime/exported`; the candidate's part of the verdict comes too.
fn verify(graph: &str, more: &[&str], code: i32) -> (Run, Value) {
    let graph = format!("{EXPORTED}/{graph}");
    let run = plansmith(&[&["verify", EXPORTED, "--onnx", &graph, "--json", "-"], more].concat()).exits(code);
    let verdict: Value = serde_json::from_str(&run.stdout).unwrap();
    let candidate = verdict["candidates"][0].clone();
    (run, candidate)
}

fn check<'a>(candidate: &'a Value, name: &str) -> &'a Value {
    candidate["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap_or(&Value::Null)
}

fn skipped<'a>(candidate: &'a Value, name: &str) -> &'a str {
    let skipped = candidate["skipped"].as_array().unwrap().iter().find(|skipped| skipped["name"] == name);
    skipped.and_then(|skipped| skipped["reason"].as_str()).unwrap_or_default()
}

#[test]
fn names_that_do_not_tell_are_listed_and_mapped() {
    let run = plansmith(&OPAQUE).exits(2);
    assert!(run.stderr.contains("opaque.onnx is not a decoder graph that can be driven: input `a` is none that we know"), "{}", run.stderr);
    assert!(run.stderr.contains("hint: say what is what with --map OURS=THEIRS"), "{}", run.stderr);
    assert!(run.stderr.contains("input  state.*.x F32[batch_size, 2, past_sequence_length, 16] (2 of them)"), "{}", run.stderr);

    let map = [
        "--map",
        "input_ids=a",
        "--map",
        "attention_mask=b",
        "--map",
        "position_ids=c",
        "--map",
        "past_key_values.*.key=state.*.x",
        "--map",
        "past_key_values.*.value=state.*.y",
        "--map",
        "present.*.key=next.*.x",
        "--map",
        "present.*.value=next.*.y",
    ];
    let run = plansmith(&[&OPAQUE[..], &map].concat()).exits(0);
    assert!(run.stdout.contains("opaque.onnx on rten, fp32 stored, fp32 computed: agree"), "{}", run.stdout);

    // Ids as positions and positions as ids: mapped wrongly, it cannot pass.
    let swapped = map.map(|entry| match entry {
        "input_ids=a" => "input_ids=c",
        "position_ids=c" => "position_ids=a",
        other => other,
    });
    let run = plansmith(&[&OPAQUE[..], &swapped].concat());
    assert!(matches!(run.code, Some(1 | 2)), "{}", run.stdout);

    let run = plansmith(&[&OPAQUE[..], &["--map", "ids=a"]].concat()).exits(2);
    assert!(run.stderr.contains("error: `--map ids=a`: `ids` is none of input_ids, attention_mask"), "{}", run.stderr);
}

#[test]
fn optimum_s_graph_agrees_and_its_graph_without_a_cache_is_tested_on_what_it_can() {
    let (_, candidate) = verify("optimum.onnx", &[], 0);
    assert_eq!(candidate["runtime"], "rten");
    assert!(check(&candidate, "padded")["passed"] == true && check(&candidate, "cache")["passed"] == true, "{candidate}");

    let (_, candidate) = verify("optimum_prefill.onnx", &[], 0);
    assert_eq!(check(&candidate, "prefill")["passed"], true);
    assert!(check(&candidate, "decode").is_null());
    assert!(skipped(&candidate, "decode").contains("it takes no cache, so that it can only prefill"), "{candidate}");
    assert!(skipped(&candidate, "cache").contains("it takes no cache"), "{candidate}");
}

#[test]
fn a_graph_of_fixed_sizes_is_tested_on_what_fits() {
    let (_, candidate) = verify("torch_fixed.onnx", &[], 0);
    assert!(check(&candidate, "prefill")["positions"].as_u64().unwrap() >= 8, "{candidate}");
    assert!(skipped(&candidate, "prefill").contains("the graph takes [2, 8]"), "{candidate}");
    assert!(skipped(&candidate, "padded").contains("it takes no attention_mask"), "{candidate}");
}

/// rten refuses most padded rows with this operator: what needs them does not apply. Those that it takes, padded inside and decoded, are wrong.
#[test]
fn rotation_inside_the_operator_on_rten() {
    let (_, candidate) = verify("genai/model.onnx", &["--runtime", "rten"], 1);
    assert!(skipped(&candidate, "padded").contains("rten takes no such padding"), "{candidate}");
    assert_eq!((&check(&candidate, "prefill")["passed"], &check(&candidate, "decode")["passed"]), (&true.into(), &false.into()));
    assert!(candidate["reason"].as_str().unwrap().contains("rotates by its own count of tokens"), "{candidate}");
    // It runs a chunk of one row only, and says so.
    assert_eq!(candidate["failed_to_run"][0]["name"], "chunked");

    let (_, candidate) = verify("genai/model.onnx", &["--runtime", "rten", "--unpadded"], 0);
    assert_eq!(check(&candidate, "decode")["passed"], true);
    assert_eq!(candidate["failed_to_run"], Value::Null);
}

/// ONNX Runtime computes them, wrongly: the graph takes a mask that it cannot honour.
#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn rotation_inside_the_operator_is_wrong_with_left_padding() {
    for graph in ["genai/model.onnx", "mobius.onnx"] {
        let (_, candidate) = verify(graph, &[], 1);
        assert_eq!(candidate["runtime"], "ort", "its own operators go to ONNX Runtime first");
        let padded = check(&candidate, "padded");
        assert_eq!(padded["passed"], false);
        assert!(padded["max_rel"].as_f64().unwrap() > 0.1, "{padded}");
        let reason = candidate["reason"].as_str().unwrap();
        assert!(reason.contains("GroupQueryAttention rotates by its own count of tokens here (do_rotary, no position_ids)"), "{reason}");

        let (_, candidate) = verify(graph, &["--unpadded"], 0);
        for name in ["prefill", "decode"] {
            assert_eq!(check(&candidate, name)["passed"], true, "{name} of {candidate}");
        }
        assert!(skipped(&candidate, "padded").contains("rows with padding are not to be tried (--unpadded)"), "{candidate}");
    }
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn what_torch_names_after_nodes_is_followed() {
    for graph in ["torch_dynamo.onnx", "torch_script.onnx"] {
        let (_, candidate) = verify(graph, &["--runtime", "ort", "--unpadded"], 0);
        assert_eq!(check(&candidate, "decode")["passed"], true, "{candidate}");
        // Its positions are columns: a rotation does not see padding on the left, but the hole of padding inside.
        let (_, candidate) = verify(graph, &["--runtime", "ort"], 1);
        assert_eq!(check(&candidate, "prefill")["worst"]["set"], "inner-padded");
        assert_eq!(check(&candidate, "masked_row")["passed"], true, "{candidate}");
    }
}

/// ONNX Runtime has no bf16 kernels for CPUs; rten widens.
#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn a_runtime_that_cannot_run_a_graph_is_named_and_another_counts() {
    let graph = ["verify", "testdata/runtime/bf16", "--onnx", "testdata/runtime/bf16/compute_bf16.onnx"];
    let run = plansmith(&[&graph[..], &["--runtime", "rten,ort"]].concat()).exits(0);
    assert!(run.stdout.contains("on ort, bf16 stored, bf16 computed: not_executed: ort cannot run "), "{}", run.stdout);
    assert!(run.stdout.trim_end().ends_with("not_executed on this host: testdata/runtime/bf16/compute_bf16.onnx"), "{}", run.stdout);
    let run = plansmith(&[&graph[..], &["--runtime", "rten,ort", "--require-executed", "-q"]].concat()).exits(1);
    let why =
        "--require-executed: 1 artifact was not executed on this host: testdata/runtime/bf16/compute_bf16.onnx; `plansmith doctor` says";
    assert!(run.stderr.starts_with(why), "{}", run.stderr);
    // With nothing executed nothing agrees.
    let run = plansmith(&[&graph[..], &["--runtime", "ort"]].concat()).exits(2);
    assert!(run.stdout.contains("error: ort cannot run "), "{}", run.stdout);
    let run = plansmith(&graph).exits(0);
    assert!(run.stdout.contains("on rten"), "{}", run.stdout);
}
