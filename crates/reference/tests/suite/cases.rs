//! The reference against logits of transformers: every case that is to agree, every prompt set, three ways.

use std::collections::BTreeMap;

use crate::support::{Golden, goldens, open, testdata};
use serde_json::Value;

/// The largest difference over the standard deviation of the logits that fp32 rounding may make.
///
/// The logits of transformers in fp32 are up to 1.4e-5 away from its own in fp64 (`longrope_long_prompt`).
const TOLERANCE: f64 = 3e-5;

/// Folders of the cases that agree, with the families that are supported.
fn agreeing() -> Vec<String> {
    let table: BTreeMap<String, Value> = serde_json::from_slice(&std::fs::read(testdata().join("cases/expected.json")).unwrap()).unwrap();
    let agrees = |case: &Value| case["verdict"] == "agree";
    table.into_iter().filter(|(_, case)| agrees(case)).map(|(name, _)| name).collect()
}

#[test]
fn every_case_agrees_with_transformers() {
    let cases = agreeing();
    assert!(cases.len() >= 40, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        let dir = testdata().join("cases").join(&case);
        let mut reference = open(&dir);
        let switch = reference.spec().switch_length();
        let sets = goldens(&dir.join("golden.safetensors"));
        assert!(!sets.is_empty(), "{case}");
        for golden in sets {
            let ways = [golden.prefill(&mut reference), golden.decode(&mut reference, switch), golden.alone(&mut reference)];
            println!("{case} {}: {}", golden.name, ways.map(|way| format!("{way:.1e}")).join(" "));
            if ways.iter().any(|way| way.is_nan() || *way >= TOLERANCE) {
                wrong.push(format!("{case} {}: {ways:?}", golden.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn padding_on_the_right_and_in_the_middle_agrees_with_transformers() {
    for case in ["left_pad_batch", "made_qwen2_window"] {
        let mut reference = open(&testdata().join("cases").join(case));
        let sets = goldens(&testdata().join("reference").join(format!("{case}.safetensors")));
        assert_eq!(sets.iter().map(|set| set.name.as_str()).collect::<Vec<_>>(), ["inner", "right"]);
        for golden in sets {
            let padded = |golden: &Golden| golden.batch.attention_mask.contains(&0);
            assert!(padded(&golden), "{case} {}", golden.name);
            for way in [golden.prefill(&mut reference), golden.decode(&mut reference, None)] {
                assert!(way < TOLERANCE, "{case} {}: {way:e}", golden.name);
            }
        }
    }
}
