//! The checks against a toy with seeded faults: which check notices which fault, and none raises a false alarm.

use super::*;
use crate::Prompts;
use crate::capture::{Capture, Keep};
use crate::golden::REFERENCE_PRODUCER;
use crate::run::{Oracles, verify_against_session};
use crate::tolerance::{Precision, Tolerance};
use crate::verdict::OracleAgreement;

pub(crate) mod toy;

use toy::{Fault, Toy, VOCAB};

fn prompts() -> Prompts {
    Prompts::builtin(VOCAB, 200).unwrap()
}

fn fp32() -> Tolerance {
    Tolerance::of(Precision::Fp32)
}

fn capture(prompts: &Prompts) -> Capture {
    Capture::of_reference(&mut Toy::new(Fault::None), prompts, VOCAB).unwrap()
}

/// Names of the checks that `candidate` does not pass against a right source.
fn noticed_by(mut candidate: Toy, prompts: &Prompts) -> Vec<&'static str> {
    let checked = verify_against_session(&mut Toy::new(Fault::None), &mut candidate, prompts, VOCAB, &fp32(), &mut |_| ()).unwrap();
    checked.checks.iter().filter(|check| !check.passed).map(|check| check.name.name()).collect()
}

#[test]
fn the_right_model_passes_every_check() {
    let checked = verify_against_session(&mut Toy::new(Fault::None), &mut Toy::new(Fault::None), &prompts(), VOCAB, &fp32(), &mut |_| ());
    let checked = checked.unwrap();
    assert_eq!(checked.skipped, []);
    let names: Vec<_> = checked.checks.iter().map(|check| (check.name.name(), check.passed)).collect();
    assert_eq!(names, [("prefill", true), ("decode", true), ("padded", true), ("cache", true)]);
    // 1 + 7 + 33 + 64 + 64 columns of single rows; 20 + 17 + 10 + 5 left-padded; 20 + 15 + 15 with holes.
    assert_eq!(checked.checks[0].positions, 169 + 52 + 50);
    // Second halves: 4 of 7, 17 of 33, 32 of 64, 32 of 160; left-padded the four columns after the last row has begun; of the columns 10..20
    // with holes 10 + 5 + 5 are attended.
    assert_eq!(checked.checks[1].positions, 4 + 17 + 32 + 32 + 16 + 20);
    assert_eq!(checked.checks[3].positions, 50);
    assert!(checked.checks.iter().all(|check| check.max_rel < 1e-6), "{checked:?}");
}

#[test]
fn each_fault_is_noticed_by_the_checks_that_exercise_it() {
    let prompts = prompts();
    for (fault, noticed) in [
        (Fault::CacheOffByOne, vec!["decode", "padded"]),
        (Fault::IgnoresPadding, vec!["prefill", "decode", "padded"]),
        (Fault::PositionFromPast, vec!["decode", "padded", "cache"]),
        (Fault::StaleCache, vec!["prefill", "decode", "padded"]),
        (Fault::NanInDecode, vec!["decode", "padded"]),
        (Fault::RowsSwapped, vec!["prefill", "decode", "padded"]),
        (Fault::Factor(1.001), vec!["prefill", "decode", "padded"]),
        (Fault::CacheRowsShifted, vec!["cache"]),
        (Fault::NotCausal, vec!["prefill", "padded"]),
    ] {
        assert_eq!(noticed_by(Toy::new(fault), &prompts), noticed, "{fault:?}");
    }
}

/// A golden of one unpadded row still shows what padding does: its own beginning is fed beside it.
#[test]
fn one_row_is_enough_to_notice_ignored_padding() {
    let row = PromptSet::new("p", 1, (0..12).map(|token| token % VOCAB as i64).collect(), None, None, None).unwrap();
    let prompts = Prompts::new(vec![row]).unwrap();
    assert_eq!(noticed_by(Toy::new(Fault::IgnoresPadding), &prompts), ["padded"]);
    assert_eq!(noticed_by(Toy::new(Fault::PositionFromPast), &prompts), ["padded"]);
    assert_eq!(noticed_by(Toy::new(Fault::None), &prompts), [""; 0]);
}

#[test]
fn a_candidate_of_last_logits_is_compared_there() {
    let prompts = prompts();
    let last_only = Toy::last_only;
    let source = capture(&prompts);
    let checked = verify_against_golden(&mut last_only(Fault::None), &source.golden, None, OracleKind::Reference, &fp32(), &mut |_| ());
    let checked = checked.unwrap();
    // One a row: five single rows, four and three in the batches.
    assert_eq!((checked.checks[0].positions, checked.checks[0].passed), (12, true));
    assert_eq!(checked.checks[1].positions, 4 + 17 + 32 + 32 + 16 + 20);
    assert!(checked.checks.iter().all(|check| check.passed), "{checked:?}");
    assert_eq!(noticed_by(last_only(Fault::IgnoresPadding), &prompts), ["prefill", "decode", "padded"]);
    assert_eq!(noticed_by(last_only(Fault::CacheOffByOne), &prompts), ["decode", "padded"]);
}

#[test]
fn a_candidate_of_last_logits_is_compared_at_stored_positions_that_are_not_last() {
    let row = PromptSet::new("p", 1, (0..9).collect(), None, None, Some(vec![2, 5])).unwrap();
    let source = capture(&Prompts::new(vec![row]).unwrap());
    let mut candidate = Toy::last_only(Fault::None);
    let checked = verify_against_golden(&mut candidate, &source.golden, None, OracleKind::Golden, &fp32(), &mut |_| ()).unwrap();
    let counts: Vec<_> = checked.checks.iter().map(|check| (check.name.name(), check.positions, check.passed)).collect();
    // Padded: columns 0..7 give row 1 its column 7, which is stored index 5 − (9 − 6) = 2 of the beginning; then two cached steps.
    assert_eq!(counts[0], ("prefill", 1, true));
    assert_eq!(counts[1], ("decode", 1, true));
    assert!(counts[2].1 >= 1 && counts[2].2, "{counts:?}");
}

#[test]
fn a_check_without_a_subject_is_said_not_to_apply() {
    let row = PromptSet::new("p", 1, vec![3], None, None, None).unwrap();
    let source = capture(&Prompts::new(vec![row]).unwrap());
    let checked = verify_against_golden(&mut Toy::new(Fault::None), &source.golden, None, OracleKind::Golden, &fp32(), &mut |_| ());
    let checked = checked.unwrap();
    assert_eq!(checked.checks.iter().map(|check| check.name.name()).collect::<Vec<_>>(), ["prefill"]);
    assert_eq!(checked.skipped.iter().map(|skipped| skipped.name.name()).collect::<Vec<_>>(), ["decode", "padded"]);
}

#[test]
fn a_model_of_one_row_is_checked_one_row_at_a_time() {
    let source = capture(&prompts());
    let cache = Some(&source.cache);
    let checked = verify_against_golden(&mut Toy::new(Fault::OneRow), &source.golden, cache, OracleKind::Reference, &fp32(), &mut |_| ());
    let checked = checked.unwrap();
    let counts: Vec<_> = checked.checks.iter().map(|check| (check.name.name(), check.positions, check.passed)).collect();
    assert_eq!(counts, [("prefill", 169, true), ("decode", 85, true), ("padded", 52 + 50, true)]);
    let skipped: Vec<_> = checked.skipped.iter().map(|skipped| skipped.name.name()).collect();
    assert_eq!(skipped, ["prefill", "decode", "padded", "cache"]);
    assert_eq!(checked.skipped[0].reason, "to set `left-padded` (4 rows for one), to set `inner-padded` (3 rows for one)");
    assert_eq!(checked.skipped[3].reason, "to set `inner-padded` (3 rows for one)");
}

#[test]
fn a_failing_or_misshapen_session_is_an_error_that_names_check_and_set() {
    let source = capture(&prompts());
    let mut fails = Toy::new(Fault::Fails);
    let error = verify_against_golden(&mut fails, &source.golden, None, OracleKind::Golden, &fp32(), &mut |_| ()).unwrap_err();
    assert_eq!(error.to_string(), "the decode check of prompt set `edges` could not be made on toy");
    let other = Golden::in_memory(vec![(source.golden.sets()[0].prompt().clone(), vec![0.0; VOCAB + 1])], VOCAB + 1, "somebody");
    let error = verify_against_golden(&mut Toy::new(Fault::None), &other, None, OracleKind::Golden, &fp32(), &mut |_| ()).unwrap_err();
    let wanted = "the prefill check of prompt set `one`: toy gave logits of shape [1, 1, 11]; [1, 1, 12] or [1, 1, 12] was wanted";
    assert_eq!(error.to_string(), wanted);
    let error = Capture::of_reference(&mut Toy::new(Fault::Factor(f32::INFINITY)), &prompts(), VOCAB).unwrap_err();
    assert!(error.to_string().starts_with("the prefill check of prompt set `one`: toy gave "), "{error}");
    assert!(error.to_string().ends_with(" at row 0, column 0, entry 0"), "{error}");
}

#[test]
fn oracles_that_disagree_are_said_so() {
    let prompts = prompts();
    let golden = capture(&prompts).golden;
    let agreement = OracleAgreement::between(&mut Toy::new(Fault::None), &golden, &mut |_| ());
    assert_eq!((agreement.verdict, agreement.reason), (crate::Outcome::Agree, None));
    let agreement = OracleAgreement::between(&mut Toy::new(Fault::Factor(1.1)), &golden, &mut |_| ());
    assert_eq!(agreement.verdict, crate::Outcome::Disagree);
    assert!(agreement.reason.unwrap().contains("config.json was misread or the golden is of other weights"));
}

#[test]
fn a_capture_in_a_file_is_the_one_in_memory_and_its_bytes_do_not_vary() {
    let folder = tempfile::tempdir().unwrap();
    let prompts = prompts();
    let memory = capture(&prompts);
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    for path in &paths {
        let file = Capture::record(&mut Toy::new(Fault::None), &prompts, VOCAB, Keep::File(path), REFERENCE_PRODUCER, &mut |_| ()).unwrap();
        assert!(file.golden.is_own_reference());
        assert_eq!(file.cache.prompt().name(), "inner-padded");
        for set in memory.golden.sets() {
            let name = set.prompt().name();
            let other = file.golden.sets().iter().find(|other| other.prompt().name() == name).unwrap();
            assert_eq!(other.prompt(), set.prompt());
        }
        let checks = crate::compare(&memory.golden, &file.golden, &fp32()).unwrap();
        assert_eq!(checks.len(), prompts.sets().len());
        assert!(checks.iter().all(|(_, check)| check.max_abs == 0.0 && check.passed));
        let verdict = Oracles::Both(&file.golden, &memory);
        let facts = crate::verdict::tests::facts("model.onnx");
        let candidate = crate::Candidate { session: &mut Toy::new(Fault::None), facts };
        let verdict = verdict.judge(candidate, &fp32(), &mut |_| ());
        assert_eq!((verdict.verdict, verdict.checks.len()), (crate::Outcome::Agree, 7));
    }
    let bytes = paths.map(|path| std::fs::read(path).unwrap());
    assert!(bytes[0] == bytes[1]);
    // A reader that is not ours.
    let tensors = safetensors::SafeTensors::deserialize(&bytes[0]).unwrap();
    assert_eq!(tensors.tensor("long.positions").unwrap().shape(), [64]);
    assert_eq!(tensors.tensor("long.logits").unwrap().shape(), [1, 64, VOCAB]);
    assert_eq!(tensors.tensor("left-padded.logits").unwrap().shape(), [4, 20, VOCAB]);
    let ids: Vec<u8> = [0_i64, 10, 1, 9, 2, 5, 3].iter().flat_map(|id| id.to_le_bytes()).collect();
    assert_eq!(tensors.tensor("edges.input_ids").unwrap().data(), ids);
}

#[test]
fn files_of_other_prompts_are_not_compared() {
    let set =
        |name: &str, ids: &[i64], positions: Option<Vec<usize>>| PromptSet::new(name, 1, ids.to_vec(), None, None, positions).unwrap();
    let golden = |set: PromptSet| capture(&Prompts::new(vec![set]).unwrap()).golden;
    let base = golden(set("p", &[1, 2, 3], None));
    let wrong = |other: PromptSet| crate::compare(&base, &golden(other), &fp32()).unwrap_err().to_string();
    assert!(wrong(set("q", &[1, 2, 3], None)).ends_with("set `q` is in the second file only"));
    assert!(wrong(set("p", &[1, 2], None)).ends_with("`p.input_ids` is [1, 3] and [1, 2]"));
    assert!(wrong(set("p", &[1, 2, 4], None)).ends_with("`p.input_ids` is 3 and 4 at row 0, column 2"));
    let some = golden(set("p", &[1, 2, 3], Some(vec![2])));
    let checks = crate::compare(&base, &some, &fp32()).unwrap();
    assert_eq!((checks[0].1.positions, checks[0].1.max_abs), (1, 0.0));
}
