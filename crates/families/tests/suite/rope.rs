//! Rotary frequencies against those of transformers (testdata/rope.json).

use std::collections::BTreeSet;

use crate::support::{read_alone, testdata, ulps};
use plansmith_families::{DecoderSpec, Frequencies, Options, Rope};
use serde_json::Value;

fn cases() -> Vec<Value> {
    testdata("rope.json")["cases"].as_array().unwrap().clone()
}

/// What is wrong, and how many frequencies are not the very same.
#[derive(Default)]
struct Tally {
    wrong: Vec<String>,
    all: usize,
    off: usize,
}

impl Tally {
    fn frequencies(&mut self, name: &str, found: &[f32], wanted: &Value) {
        let wanted: Vec<f32> = wanted.as_array().unwrap().iter().map(|value| value.as_f64().unwrap() as f32).collect();
        if found.len() != wanted.len() {
            self.wrong.push(format!("{name}: {} frequencies instead of {}", found.len(), wanted.len()));
        }
        for (index, (&found, &wanted)) in found.iter().zip(&wanted).enumerate() {
            self.all += 1;
            match ulps(found, wanted) {
                0 => {}
                1..=2 => self.off += 1,
                distance => self.wrong.push(format!("{name}: frequency {index} is {found:e}, {distance} ulps from {wanted:e}")),
            }
        }
    }

    fn rope(&mut self, name: &str, found: &Rope, wanted: &Value) {
        match (&found.frequencies, wanted.get("long")) {
            (Frequencies::Fixed(all), None) => self.frequencies(name, all, &wanted["inv_freq"]),
            (Frequencies::Switched { short, long, length }, Some(wanted_long)) => {
                self.frequencies(name, short, &wanted["inv_freq"]);
                self.frequencies(&format!("{name}, long"), long, wanted_long);
                if wanted["length"] != *length {
                    self.wrong.push(format!("{name}: changes at {length} instead of {}", wanted["length"]));
                }
            }
            (_, long) => self.wrong.push(format!("{name}: one side of a switch, {} in transformers", long.is_some())),
        }
        let amplitude = wanted["attention_scaling"].as_f64().unwrap();
        if (found.amplitude - amplitude).abs() > 1e-15 {
            self.wrong.push(format!("{name}: amplitude {} instead of {amplitude}", found.amplitude));
        }
    }

    fn case(&mut self, case: &Value) {
        let (name, read) = (case["name"].as_str().unwrap(), read_alone(&case["config"], &Options::default()));
        let spec = match (read, case.get("fails")) {
            (Ok(spec), None) => spec,
            (Err(_), Some(_)) => return,
            (Ok(_), Some(fails)) => return self.wrong.push(format!("{name}: is read; transformers: {fails}")),
            (Err(error), None) => return self.wrong.push(format!("{name}: {error}")),
        };
        let mut compared = BTreeSet::new();
        for (layer, index) in spec.layers.iter().zip(case["layers"].as_array().unwrap()) {
            let wanted = &case["ropes"][index.as_u64().unwrap() as usize];
            match layer.attention.rope {
                None if wanted.is_null() => {}
                Some(rope) if !wanted.is_null() => {
                    if compared.insert((rope, index.as_u64())) {
                        self.rope(name, &spec.ropes[rope], wanted);
                    }
                }
                rope => self.wrong.push(format!("{name}: rope {rope:?}, {wanted} in transformers")),
            }
        }
    }
}

#[test]
fn frequencies_and_amplitudes_are_those_of_transformers() {
    let cases = cases();
    assert!(cases.len() > 280, "{}", cases.len());
    let mut tally = Tally::default();
    cases.iter().for_each(|case| tally.case(case));
    let Tally { wrong, all, off } = tally;
    println!("{all} frequencies, {off} off by one or two ulps");
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    // torch's vectorised power is not correctly rounded on every machine; nothing else may differ.
    assert!(off * 100 < all, "{off} of {all} are off");
}

fn read_up_to(case: &Value, max_length: u64) -> DecoderSpec {
    read_alone(&case["config"], &Options { max_length: Some(max_length), ..Options::default() }).unwrap()
}

/// Where a length is promised, a switch at another one is gone, and the side is the one that transformers takes at that length.
#[test]
fn a_promised_length_takes_one_side_of_the_switch() {
    let mut switched = 0;
    for case in cases() {
        for (index, wanted) in case["ropes"].as_array().into_iter().flatten().enumerate() {
            let (Some(long), Some(length)) = (wanted.get("long"), wanted.get("length").and_then(Value::as_u64)) else { continue };
            let layer = case["layers"].as_array().unwrap().iter().position(|of| of.as_u64() == Some(index as u64)).unwrap();
            let mut tally = Tally::default();
            for (max_length, side) in [(1, &wanted["inv_freq"]), (length, &wanted["inv_freq"]), (length + 1, long), (10 * length, long)] {
                let spec = read_up_to(&case, max_length);
                let Frequencies::Fixed(found) = &spec.ropes[spec.layers[layer].attention.rope.unwrap()].frequencies else {
                    panic!("{} at {max_length}", case["name"])
                };
                tally.frequencies(&format!("{} at {max_length}", case["name"]), found, side);
                assert_eq!(spec.switch_length(), None);
            }
            assert!(tally.wrong.is_empty(), "{}", tally.wrong.join("\n"));
            assert_eq!(read_alone(&case["config"], &Options::default()).unwrap().switch_length(), Some(length));
            switched += 1;
        }
    }
    assert!(switched > 15, "{switched}");
}

/// `dynamic` is exact up to the length where its angles begin to change with every step.
#[test]
fn dynamic_ends_where_its_angles_begin_to_change() {
    let mut dynamic = 0;
    for case in cases() {
        let Some(limit) = case["ropes"][0]["limit"].as_u64() else { continue };
        read_up_to(&case, limit);
        let beyond = Options { max_length: Some(limit + 1), ..Options::default() };
        assert!(read_alone(&case["config"], &beyond).is_err(), "{}", case["name"]);
        dynamic += 1;
    }
    assert!(dynamic > 3, "{dynamic}");
}

/// A few cases differ from `default` at all: the comparison above would otherwise prove little.
#[test]
fn the_cases_tell_rope_types_apart() {
    let cases = cases();
    let of = |name: &str| cases.iter().find(|case| case["name"] == name).map(|case| case["ropes"][0]["inv_freq"].clone()).unwrap();
    let names = ["linear_4_128_v4", "llama_3.1_128_v4", "qwen2.5_yarn_128_v4", "yarn_truncate_false_128_v4", "yarn_betas_128_v4"];
    for (index, name) in names.iter().enumerate() {
        for other in &names[..index] {
            assert_ne!(of(name), of(other), "{name} {other}");
        }
    }
}
