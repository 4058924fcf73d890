use std::collections::BTreeMap;
use std::path::PathBuf;

use safetensors::tensor::TensorView;
use serde_json::Value;

use super::*;
use crate::metrics::{Meter, Place};

struct Tensor {
    dtype: safetensors::Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

fn i64s(shape: &[usize], values: &[i64]) -> Tensor {
    Tensor { dtype: safetensors::Dtype::I64, shape: shape.to_vec(), bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect() }
}

fn f32s(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor { dtype: safetensors::Dtype::F32, shape: shape.to_vec(), bytes: values.iter().flat_map(|value| value.to_le_bytes()).collect() }
}

/// A golden of two rows, two columns and a vocabulary of three, with `changes` made to it, opened.
fn open_with(changes: Vec<(&str, Option<Tensor>)>) -> Result<Golden, String> {
    let mut tensors = BTreeMap::from([
        ("p.input_ids", i64s(&[2, 2], &[0, 2, 1, 2])),
        ("p.attention_mask", i64s(&[2, 2], &[0, 1, 1, 1])),
        ("p.logits", f32s(&[2, 2, 3], &[f32::NAN, 0., 0., 1., 2., 3., 4., 5., 6., 7., 8., 9.])),
    ]);
    for (name, tensor) in changes {
        tensors.remove(name);
        if let Some(tensor) = tensor {
            tensors.insert(name, tensor);
        }
    }
    let views = tensors.iter().map(|(name, tensor)| (*name, TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.bytes).unwrap()));
    open_bytes(&safetensors::serialize(views, None).unwrap())
}

fn open_bytes(bytes: &[u8]) -> Result<Golden, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.safetensors");
    std::fs::write(&path, bytes).unwrap();
    Golden::open(&path).map_err(|error| error.to_string().split_once("g.safetensors`: ").unwrap().1.to_owned())
}

fn problem(name: &str, tensor: Tensor) -> String {
    open_with(vec![(name, Some(tensor))]).unwrap_err()
}

#[test]
fn positions_come_from_the_mask_and_masked_logits_do_not_count() {
    let golden = open_with(vec![]).unwrap();
    let [set] = golden.sets() else { panic!("one set") };
    assert_eq!((set.prompt().name(), set.prompt().batch(), set.prompt().sequence(), set.vocab()), ("p", 2, 2, 3));
    assert_eq!(set.prompt().position_ids(), [1, 0, 0, 1]);
    let mut logits = Vec::new();
    set.read(1, 0, &mut logits).unwrap();
    assert_eq!(logits, [4., 5., 6.]);
    assert_eq!(golden.producer(), None);
}

#[test]
fn names_may_hold_dots() {
    let golden =
        open_with(vec![("a.b.c.input_ids", Some(i64s(&[1, 1], &[1]))), ("a.b.c.logits", Some(f32s(&[1, 1, 3], &[0.; 3])))]).unwrap();
    let names: Vec<_> = golden.sets().iter().map(|set| set.prompt().name()).collect();
    assert_eq!(names, ["a.b.c", "p"]);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    assert_eq!(problem("p.logitz", f32s(&[1], &[0.])), "unknown tensor `p.logitz`; the nearest name is `p.logits`");
    assert_eq!(problem("input_id", i64s(&[1], &[0])), "unknown tensor `input_id`; the nearest name is `NAME.input_ids`");
    assert_eq!(problem("logits", f32s(&[1], &[0.])), "tensor `logits` has no set's name before the dot");
    assert_eq!(problem("p.input_ids", f32s(&[2, 2], &[0.; 4])), "`p.input_ids` is F32; I64 is needed");
    assert_eq!(problem("p.input_ids", i64s(&[4], &[0; 4])), "`p.input_ids` is [4]; [batch, seq] is needed");
    assert_eq!(problem("p.input_ids", i64s(&[2, 2], &[0, 3, 0, 0])), "`p.input_ids` holds 3; `p.logits` has a vocabulary of 3");
    assert_eq!(problem("p.attention_mask", i64s(&[2, 1], &[1; 2])), "`p.attention_mask` is [2, 1]; [2, 2] is needed");
    assert_eq!(problem("p.logits", i64s(&[2, 2, 3], &[0; 12])), "`p.logits` is I64; F32 is needed");
    assert_eq!(problem("p.logits", f32s(&[2, 3, 2], &[0.; 12])), "`p.logits` is [2, 3, 2]; input_ids implies [2, 2, vocab]");
    assert_eq!(problem("p.positions", i64s(&[1], &[0])), "`p.logits` is [2, 2, 3]; positions implies [2, 1, vocab]");
    assert_eq!(problem("p.positions", i64s(&[2], &[0, -1])), "`p.positions` holds a negative column");
    assert_eq!(problem("p.positions", i64s(&[2], &[0, 2])), "prompt set `p`: positions names column 2; the sequence has 2");
    let nan = f32s(&[2, 2, 3], &[0., 0., 0., 0., 0., 0., 0., f32::NAN, 0., 0., 0., 0.]);
    assert_eq!(problem("p.logits", nan), "`p.logits` is NaN at row 1, column 0, entry 1");
    assert_eq!(open_with(vec![("p.logits", None)]).unwrap_err(), "`p.logits` is missing");
    assert_eq!(open_with(vec![("p.input_ids", None)]).unwrap_err(), "`p.input_ids` is missing");
    let other = vec![("q.input_ids", Some(i64s(&[1, 1], &[0]))), ("q.logits", Some(f32s(&[1, 1, 4], &[0.; 4])))];
    assert_eq!(open_with(other).unwrap_err(), "`q.logits` have 4 entries a position, `p.logits` 3");
}

#[test]
fn a_file_of_another_format_is_refused() {
    let of = |header: &str, payload: usize| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.extend(std::iter::repeat_n(0, payload));
        open_bytes(&bytes).unwrap_err()
    };
    assert_eq!(open_bytes(b"PK\x03\x04").unwrap_err(), "not a safetensors file: 4 bytes are less than a header");
    assert_eq!(
        open_bytes(&u64::MAX.to_le_bytes()).unwrap_err(),
        "not a safetensors file: the header claims 18446744073709551615 bytes; the file has 8"
    );
    assert_eq!(of("{}", 0), "there is no prompt set in the file");
    assert_eq!(of("{}", 1), "not a safetensors file: the header describes 10 bytes; the file has 11");
    let entry = r#""p.logits":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
    assert_eq!(of(&format!("{{{entry},{entry}}}"), 4), "not a safetensors file: `p.logits` is listed twice");
}

#[test]
fn a_golden_of_another_model_is_refused() {
    let golden = open_with(vec![]).unwrap();
    golden.check_fits(3, 2).unwrap();
    let wrong = |vocab, positions| golden.check_fits(vocab, positions).unwrap_err().to_string();
    assert!(wrong(4, 2).contains("the logits have 3 entries a position; the model's vocabulary has 4"), "{}", wrong(4, 2));
    assert!(wrong(3, 1).contains("`p.position_ids` reaches 1; the model has 1 positions"), "{}", wrong(3, 1));
}

/// Every golden of `testdata/cases`, which transformers made, against what numpy reads there.
#[test]
fn the_goldens_of_transformers_are_read_as_numpy_reads_them() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cases");
    let facts: Value = serde_json::from_str(include_str!("../../../../testdata/verify/goldens.json")).unwrap();
    let facts = facts.as_object().unwrap();
    assert!(facts.len() >= 16);
    for (case, sets) in facts {
        let golden = Golden::open(&root.join(case).join("golden.safetensors")).unwrap();
        assert_eq!(golden.sets().len(), sets.as_object().unwrap().len(), "{case}");
        for set in golden.sets() {
            let prompt = set.prompt();
            let wanted = &sets[prompt.name()];
            let shape = [prompt.batch(), prompt.sequence(), prompt.stored(), set.vocab()];
            assert_eq!(
                shape.map(Value::from).as_slice(),
                ["batch", "sequence", "stored", "vocab"].map(|key| wanted[key].clone()),
                "{case}"
            );
            let mut logits = Vec::new();
            let mut meter = Meter::default();
            for row in 0..prompt.batch() {
                for index in (0..prompt.stored()).filter(|&index| prompt.attends(row, prompt.column(index))) {
                    set.read(row, index, &mut logits).unwrap();
                    meter.add_logits(Place { row, column: prompt.column(index) }, &logits, &logits);
                }
            }
            let metrics = meter.finish();
            assert_eq!(
                (Value::from(metrics.positions), metrics.max_abs, metrics.kl_max),
                (wanted["compared"].clone(), 0.0, Some(0.0)),
                "{case}"
            );
            let scale = wanted["scale"].as_f64().unwrap();
            assert!((metrics.scale - scale).abs() < 1e-9 * scale, "{case}: {} instead of {scale}", metrics.scale);
            set.read(prompt.batch() - 1, prompt.stored() - 1, &mut logits).unwrap();
            // As f32: this build of serde_json may be one f64 ulp off.
            let last: Vec<f32> = wanted["last"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap() as f32).collect();
            assert_eq!(logits[set.vocab() - 3..], last, "{case}");
        }
    }
}
