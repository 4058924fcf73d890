//! Greedy text, over the length at which a model's rotations change.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use common::{case, copy_files, plansmith, text, words};

/// transformers 5.24, greedy without a cache (so that each step has the frequencies of its length), from 60 tokens; the switch is at 64.
const ANSWER: &str = "231 180 213 75 17 166 185 25 252 203 183 17 \n";

#[test]
fn the_cache_is_filled_anew_where_rotations_change() {
    let folder = tempfile::tempdir().unwrap();
    copy_files(&case("longrope_short_prompt"), folder.path());
    std::fs::write(folder.path().join("tokenizer.json"), words(256).to_string()).unwrap();
    let prompt = (0..60).map(|index| format!("t{}", (7 * index + 3) % 250 + 3)).collect::<Vec<_>>().join(" ");
    let arguments = ["run", text(folder.path()), "--prompt", &prompt, "--max-tokens", "12", "--token-ids"];
    let run = plansmith(&arguments).exits(0);
    assert_eq!(run.stdout, ANSWER);
    assert!(run.stderr.contains("rotations change beyond 64 tokens: the cache is filled anew"), "{}", run.stderr);

    let out = folder.path().join("short");
    plansmith(&["export", text(folder.path()), "-o", text(&out), "--max-length", "64"]).exits(0);
    std::fs::copy(folder.path().join("tokenizer.json"), out.join("tokenizer.json")).unwrap();
    let graph = out.join("model.onnx");
    let run = plansmith(&["run", text(&graph), "--prompt", &prompt, "--max-tokens", "12", "--token-ids"]).exits(0);
    assert!(run.stdout.starts_with("231 180 213 75 17 "), "{}", run.stdout);
    assert_ne!(run.stdout, ANSWER, "the short frequencies are wrong beyond the switch");
    assert!(run.stderr.contains("longer than the 64 tokens"), "{}", run.stderr);
}

#[test]
fn bench_takes_what_the_model_has_positions_for() {
    let model = case("llama3_rope");
    let refused = plansmith(&["bench", text(&model), "--prefill", "100000"]).exits(2);
    assert!(refused.stderr.contains("100032 tokens do not fit the 4096 that the graph was made for"), "{}", refused.stderr);
    let refused = plansmith(&["bench", text(&model), "--prefill", "18446744073709551615"]).exits(2);
    assert!(refused.stderr.contains("--prefill 18446744073709551615 is more than"), "{}", refused.stderr);
    for flag in ["--prefill", "--decode", "--repeat"] {
        assert!(plansmith(&["bench", text(&model), flag, "0"]).exits(2).stderr.contains("needs a number from 1 on"));
    }
}

#[test]
fn numbers_and_files_without_end_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    copy_files(&case("llama3_rope"), &model);
    let out = folder.path().join("out");
    let run = plansmith(&["golden", text(&model), "-o", text(&out), "--prompts", "/dev/zero"]).exits(2);
    assert!(run.stderr.contains("prompts `/dev/zero`: no regular file"), "{}", run.stderr);
    let endless = ["export", text(&model), "-o", text(&out), "--kv", "static", "--max-length", "18446744073709551615"];
    let run = plansmith(&endless).exits(2);
    assert!(run.stderr.contains("slots are the most"), "{}", run.stderr);
    let config = std::fs::read_to_string(model.join("config.json")).unwrap();
    for key in ["head_dim", "num_attention_heads", "num_key_value_heads", "hidden_size"] {
        let mut changed: serde_json::Value = serde_json::from_str(&config).unwrap();
        changed[key] = 2_147_483_648_u64.into();
        std::fs::write(model.join("config.json"), changed.to_string()).unwrap();
        let run = plansmith(&["inspect", text(&model)]).exits(2);
        assert!(run.stderr.contains(key) && run.stderr.contains("more than any tensor's dimension"), "{}", run.stderr);
    }
}
