//! Rotary frequencies against those of transformers (testdata/rope.json).

use crate::support::{one_layer, read, testdata};
use serde_json::Value;

/// Distance in representable numbers.
fn ulps(left: f32, right: f32) -> u32 {
    left.to_bits().abs_diff(right.to_bits())
}

#[test]
fn frequencies_and_amplitudes_are_those_of_transformers() {
    let file = testdata("rope.json");
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() > 140, "{}", cases.len());
    let (mut wrong, mut off, mut all) = (Vec::new(), 0, 0);
    for case in cases {
        let (name, config) = (case["name"].as_str().unwrap(), &case["config"]);
        let spec = match read(config, &one_layer(config)) {
            Ok(spec) => spec,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let rope = &spec.ropes[spec.layers[0].attention.rope];
        let wanted: Vec<f32> = case["inv_freq"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap() as f32).collect();
        assert_eq!(rope.inverse_frequencies.len(), wanted.len(), "{name}");
        for (index, (&found, &wanted)) in rope.inverse_frequencies.iter().zip(&wanted).enumerate() {
            all += 1;
            match ulps(found, wanted) {
                0 => {}
                1..=2 => off += 1,
                distance => wrong.push(format!("{name}: frequency {index} is {found:e}, {distance} ulps from {wanted:e}")),
            }
        }
        let amplitude = case["attention_scaling"].as_f64().unwrap();
        if (rope.amplitude - amplitude).abs() > 1e-15 {
            wrong.push(format!("{name}: amplitude {} instead of {amplitude}", rope.amplitude));
        }
    }
    println!("{all} frequencies, {off} off by one or two ulps");
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    // torch's vectorised power is not correctly rounded on every machine; nothing else may differ.
    assert!(off * 100 < all, "{off} of {all} are off");
}

/// A few cases differ from `default` at all: the comparison above would otherwise prove little.
#[test]
fn the_cases_tell_rope_types_apart() {
    let file = testdata("rope.json");
    let cases = file["cases"].as_array().unwrap();
    let of = |name: &str| cases.iter().find(|case| case["name"] == name).map(|case: &Value| case["inv_freq"].clone()).unwrap();
    let names = ["linear_4_128_v4", "llama_3.1_128_v4", "qwen2.5_yarn_128_v4", "yarn_truncate_false_128_v4", "yarn_betas_128_v4"];
    for (index, name) in names.iter().enumerate() {
        for other in &names[..index] {
            assert_ne!(of(name), of(other), "{name} {other}");
        }
    }
}
