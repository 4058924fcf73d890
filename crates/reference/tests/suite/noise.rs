//! Rounded runs against what rounding does to transformers: `tools/make_noise.py`.

use std::collections::BTreeMap;

use crate::support::{Golden, goldens, open, open_rounded, testdata};
use plansmith_reference::{Reference, Rounding, Significand};
use plansmith_tensor::{Batch, Session};

/// By case, dtype and figure.
type Noise = BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>;

fn transformers() -> Noise {
    let noise: Noise = serde_json::from_slice(&std::fs::read(testdata().join("reference/noise.json")).unwrap()).unwrap();
    assert!(noise.len() >= 10);
    noise
}

const fn sixteen(significand: Significand) -> Rounding {
    Rounding { weights: Some(significand), activations: Some(significand), scores: true }
}

/// The figures of `noise.json`, between two runs of the reference.
fn figures(golden: &Golden, exact: &mut Reference, rounded: &mut Reference) -> BTreeMap<String, f64> {
    let mut logits = [&mut *exact, rounded].map(|reference| {
        reference.reset(golden.batch.batch).unwrap();
        reference.step(&golden.batch).unwrap()
    });
    let [exact, rounded] = &mut logits;
    let (mut differences, mut divergences, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..golden.batch.batch {
        for position in (0..golden.batch.sequence).filter(|&position| golden.attends(row, position)) {
            let (source, candidate) = (wide(exact.at(row, position)), wide(rounded.at(row, position)));
            differences.extend(source.iter().zip(&candidate).map(|(a, b)| (a - b).abs()));
            let (ours, theirs) = (log_softmax(&source), log_softmax(&candidate));
            divergences.push(ours.iter().zip(theirs).map(|(a, b)| a.exp() * (a - b)).sum::<f64>());
            values.extend(source);
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let largest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let middle = mean(&values);
    let scale = mean(&values.iter().map(|value| (value - middle).powi(2)).collect::<Vec<_>>()).sqrt();
    [
        ("max_rel", largest(&differences) / scale),
        ("mean_rel", mean(&differences) / scale),
        ("kl_mean", mean(&divergences)),
        ("kl_max", largest(&divergences)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

fn log_softmax(values: &[f64]) -> Vec<f64> {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum = values.iter().map(|value| (value - largest).exp()).sum::<f64>().ln();
    values.iter().map(|value| value - largest - sum).collect()
}

/// The worst of each figure over the sets of a case.
fn noise_of(case: &str, rounding: Rounding) -> BTreeMap<String, f64> {
    let dir = testdata().join("cases").join(case);
    let (mut exact, mut rounded) = (open(&dir), open_rounded(&dir, rounding));
    let mut worst = BTreeMap::new();
    for golden in goldens(&dir.join("golden.safetensors")) {
        for (name, value) in figures(&golden, &mut exact, &mut rounded) {
            let entry: &mut f64 = worst.entry(name).or_default();
            *entry = entry.max(value);
        }
    }
    worst
}

/// Within `low..high` times what transformers has, each figure of each case; `scale` is for errors, its square for divergences.
fn compare(dtype: &str, rounding: Rounding, scale: f64, low: f64, high: f64) {
    let mut wrong = Vec::new();
    for (case, noise) in transformers() {
        for (name, found) in noise_of(&case, rounding) {
            let power = if name.starts_with("kl") { 2 } else { 1 };
            let ratio = (found * scale.powi(power) / noise[dtype][&name]).powf(1.0 / f64::from(power));
            if !(low..high).contains(&ratio) {
                wrong.push(format!("{case} {dtype} {name}: {ratio}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sixteen_bits_are_as_noisy_as_in_transformers() {
    compare("fp16", sixteen(Significand::Fp16), 1.0, 0.5, 2.0);
    compare("bf16", sixteen(Significand::Bf16), 1.0, 0.5, 2.0);
}

/// fp32 as a scaled 16-bit run: sums of products, which a rounded run does exactly, are rounded in fp32 too, so that transformers has more.
#[test]
fn fp32_is_within_a_small_factor_of_transformers() {
    let rounding = Rounding { activations: Some(Significand::Bits(16)), scores: true, weights: None };
    compare("fp32", rounding, f64::from(2.0f32.powi(16 - 24)), 0.15, 1.0);
}

#[test]
fn what_is_stored_is_rounded_and_nothing_where_nothing_is_asked_for() {
    let dir = testdata().join("cases/made_qwen3_qk_norm");
    let golden = goldens(&dir.join("golden.safetensors")).remove(0);
    let run = |mut reference: Reference| {
        reference.reset(golden.batch.batch).unwrap();
        let logits = reference.step(&golden.batch).unwrap();
        (logits, reference.cache().unwrap())
    };
    let exact = run(open(&dir));
    let twenty_four = Rounding { weights: Some(Significand::Bits(24)), activations: Some(Significand::Bits(24)), scores: true };
    assert!(run(open_rounded(&dir, Rounding::default())) == exact);
    assert!(run(open_rounded(&dir, twenty_four)) == exact);
    for significand in [Significand::Fp16, Significand::Bf16] {
        let (logits, cache) = run(open_rounded(&dir, sixteen(significand)));
        let stored = cache.iter().flat_map(|layer| [&layer.key.data, &layer.value.data]).chain([&logits.data]);
        for values in stored {
            let mut again = values.clone();
            significand.round(&mut again);
            assert!(again == *values, "{significand:?}");
        }
        assert!(logits != exact.0);
    }
    let weights_alone = Rounding { weights: Some(Significand::Bf16), ..Rounding::default() };
    let scores_too = |scores| Rounding { scores, ..sixteen(Significand::Bf16) };
    let all = [weights_alone, scores_too(false), scores_too(true)].map(|rounding| run(open_rounded(&dir, rounding)).0);
    assert!(all[0] != exact.0 && all[0] != all[1] && all[1] != all[2]);
}

/// Beyond 65,504 an fp16 graph has infinities, and so has the rounded run.
#[test]
fn fp16_overflows_where_the_graph_would() {
    let dir = testdata().join("cases/fp16_overflow");
    let ids = Batch::unpadded(1, vec![1, 2, 3, 4, 5], 0).unwrap();
    let finite = |rounding| open_rounded(&dir, rounding).step(&ids).unwrap().data.iter().all(|logit| logit.is_finite());
    assert!(finite(Rounding::default()) && finite(sixteen(Significand::Bf16)));
    assert!(!finite(sixteen(Significand::Fp16)));
}
