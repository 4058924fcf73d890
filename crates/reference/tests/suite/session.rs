//! What a session does besides computing the right numbers: refusals, partial logits, odd files.

use std::path::Path;

use crate::support::{goldens, open, testdata};
use plansmith_checkpoint::Checkpoint;
use plansmith_reference::Reference;
use plansmith_tensor::{Batch, Session};

#[test]
fn logits_at_some_positions_are_those_of_the_whole_step() {
    let dir = testdata().join("cases/left_pad_batch");
    let golden = goldens(&dir.join("golden.safetensors")).remove(0);
    let mut reference = open(&dir);
    reference.reset(3).unwrap();
    let some = reference.step_at(&golden.batch, &[11, 7]).unwrap();
    assert_eq!((some.batch, some.sequence, some.vocab, some.data.len()), (3, 2, 256, 3 * 2 * 256));
    for row in 0..3 {
        for (index, position) in [(0, 11), (1, 7)] {
            for (found, wanted) in some.at(row, index).iter().zip(golden.logits.at(row, position)) {
                assert!((found - wanted).abs() < 1e-5, "row {row}, position {position}: {found} {wanted}");
            }
        }
    }
    let nothing = reference.step_at(&Batch::unpadded(3, vec![1, 2, 3], 12).unwrap(), &[]).unwrap();
    assert!(nothing.data.is_empty());
    assert_eq!(reference.past(), 13);
}

#[test]
fn a_step_that_does_not_fit_is_refused_and_leaves_the_cache_alone() {
    let mut reference = open(&testdata().join("cases/left_pad_batch"));
    reference.step(&Batch::unpadded(1, vec![5, 6], 0).unwrap()).unwrap();
    let message = |reference: &mut Reference, batch: Batch| reference.step(&batch).unwrap_err().to_string();
    assert_eq!(
        message(&mut reference, Batch::unpadded(1, vec![5, 256], 2).unwrap()),
        "the batch does not fit: token id 256 is outside the vocabulary of 256"
    );
    assert_eq!(
        message(&mut reference, Batch::unpadded(1, vec![-1], 2).unwrap()),
        "the batch does not fit: token id -1 is outside the vocabulary of 256"
    );
    assert_eq!(
        message(&mut reference, Batch::unpadded(2, vec![5, 6], 2).unwrap()),
        "the batch does not fit: it has 2 rows; the session was reset for 1"
    );
    assert_eq!(
        message(&mut reference, Batch::unpadded(1, vec![5], 0).unwrap()),
        "the batch does not fit: attention_mask has 1 elements; batch 1, sequence 1 and past 2 imply 3"
    );
    let position = reference.step_at(&Batch::unpadded(1, vec![5], 2).unwrap(), &[1]).unwrap_err().to_string();
    assert_eq!(position, "the batch does not fit: logits are asked for at position 1; the step has 1");
    assert_eq!(reference.reset(0).unwrap_err().to_string(), "the batch does not fit: a session needs at least one row");
    assert_eq!(reference.past(), 2);
    let cache = reference.cache().unwrap();
    assert_eq!(cache.len(), reference.spec().layers.len());
    assert_eq!(cache[0].key.shape, [1, reference.spec().layers[0].attention.kv_heads as usize, 2, 16]);
    assert_eq!(cache[0].key.data.len(), cache[0].key.shape.iter().product::<usize>());
}

#[test]
fn a_checkpoint_of_another_shape_or_name_is_refused() {
    let cases = testdata().join("cases");
    let spec = open(&cases.join("untied_distinct")).spec().clone();
    let refusal = |case: &str| Reference::open(spec.clone(), &Checkpoint::open(&cases.join(case)).unwrap()).unwrap_err();
    let shape = refusal("wrong_shape_tensor").to_string();
    assert!(
        shape.starts_with("tensor `model.layers.1.self_attn.k_proj.weight` has shape [")
            && shape.ends_with("(num_key_value_heads 2 × head_dim 16 by hidden_size 64)"),
        "{shape}"
    );
    let missing = refusal("missing_one_tensor").to_string();
    assert!(missing.ends_with("holds no tensor `model.layers.1.self_attn.k_proj.weight`"), "{missing}");
}

/// The format promises no alignment: a header one byte longer moves every tensor off its natural address.
#[test]
fn misaligned_weights_give_the_same_logits_to_the_bit() {
    for case in ["made_llama_tied", "made_llama_bf16", "made_llama_fp16"] {
        let dir = testdata().join("cases").join(case);
        let golden = goldens(&dir.join("golden.safetensors")).remove(0);
        let moved = tempfile::tempdir().unwrap();
        for padding in 1..4 {
            pad_header(&dir, moved.path(), padding);
            let (mut aligned, mut misaligned) = (open(&dir), open(moved.path()));
            aligned.reset(golden.batch.batch).unwrap();
            misaligned.reset(golden.batch.batch).unwrap();
            assert_eq!(aligned.step(&golden.batch).unwrap(), misaligned.step(&golden.batch).unwrap(), "{case}");
        }
    }
}

fn pad_header(from: &Path, to: &Path, padding: usize) {
    let file = std::fs::read(from.join("model.safetensors")).unwrap();
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let mut moved = ((length + padding) as u64).to_le_bytes().to_vec();
    moved.extend_from_slice(&file[8..8 + length]);
    moved.extend(std::iter::repeat_n(b' ', padding));
    moved.extend_from_slice(&file[8 + length..]);
    std::fs::write(to.join("model.safetensors"), moved).unwrap();
    std::fs::copy(from.join("config.json"), to.join("config.json")).unwrap();
}
