//! The checks against a toy with seeded faults: which check notices which fault, and none raises a false alarm.

use super::*;
use crate::Prompts;
use crate::capture::{Capture, Keep};
use crate::golden::REFERENCE_PRODUCER;
use crate::noise::Noise;
use crate::precision::Precision;
use crate::run::{Candidate, Oracles, verify_against_session};
use crate::tolerance::{self, Limits, Standard, Tolerance};
use crate::verdict::tests::facts;
use crate::verdict::{OracleAgreement, Outcome};

pub(crate) mod toy;

use toy::{Fault, Toy, VOCAB};

fn prompts() -> Prompts {
    Prompts::builtin(VOCAB, 200, &[]).unwrap()
}

fn fp32() -> Standard<'static> {
    Standard::fixed(Precision::Fp32)
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
    let counts: Vec<_> = checked.checks.iter().map(|check| (check.name.name(), check.positions)).collect();
    let wanted = [
        // 1 + 7 + 33 + 64 + 64 columns of single rows; 20 + 17 + 10 + 5 left-padded; 20 + 15 + 15 with holes; 16 choices of its own.
        ("prefill", 169 + 52 + 50 + 16),
        ("last", 6 + 4 + 3),
        // The set of one column has no three parts.
        ("chunked", 168 + 52 + 50),
        // Second halves: 4 of 7, 17 of 33, 32 of 64, 32 of 160; left-padded the four columns after the last row has begun; of the columns
        // 10..20 with holes 10 + 5 + 5 are attended.
        ("decode", 4 + 17 + 32 + 32 + 16 + 20),
        // Rows alone; each unpadded set whole and its first half, twice: 7 + 4, 33 + 17, 64 + 32, and of the long one the 64 stored columns and
        // the 32 of a beginning that ends with column 31.
        ("padded", 52 + 50 + 2 * (11 + 50 + 96 + 96)),
        // The padded batch whose first row is whole.
        ("masked_row", 20),
        ("batch", 40),
        ("greedy", 16),
        ("cache", 50),
    ];
    assert_eq!(counts, wanted);
    assert!(checked.checks.iter().all(|check| check.passed && check.max_rel < 1e-6), "{checked:?}");
    let greedy = checked.checks.iter().find_map(|check| check.greedy.clone()).unwrap();
    assert_eq!((greedy.tokens, greedy.alike, greedy.first_divergence, greedy.tie), (16, 16, None, false));
}

#[test]
fn each_fault_is_noticed_by_the_checks_that_exercise_it() {
    let prompts = prompts();
    for (fault, noticed) in [
        (Fault::CacheOffByOne, "chunked decode padded masked_row greedy"),
        (Fault::IgnoresPadding, "prefill last chunked decode padded"),
        (Fault::PositionFromPast, "chunked decode padded cache"),
        (Fault::StaleCache, "prefill last chunked decode padded masked_row greedy"),
        (Fault::NanInDecode, "chunked decode padded masked_row batch greedy"),
        (Fault::RowsSwapped, "prefill last chunked decode padded masked_row"),
        (Fault::Factor(1.001), "prefill last chunked decode padded masked_row greedy"),
        (Fault::CacheRowsShifted, "cache"),
        (Fault::NotCausal, "prefill chunked padded masked_row"),
        (Fault::ChunkSeesAhead, "chunked"),
        (Fault::DependsOnBatch, "prefill last chunked decode padded masked_row batch"),
        (Fault::NanWhereMasked, "masked_row"),
        (Fault::LastOff, "prefill last chunked padded masked_row greedy"),
    ] {
        assert_eq!(noticed_by(Toy::new(fault), &prompts).join(" "), noticed, "{fault:?}");
    }
}

/// A graph whose form has no place for an input is not blamed for it.
#[test]
fn what_a_graph_cannot_express_is_left_out_with_the_reason() {
    let mut candidate = Toy::new(Fault::NoLeftPadding);
    let checked = verify_against_session(&mut Toy::new(Fault::None), &mut candidate, &prompts(), VOCAB, &fp32(), &mut |_| ()).unwrap();
    assert!(checked.checks.iter().all(|check| check.passed), "{checked:?}");
    let reason = "to set `left-padded` (there is no position_ids to tell left padding by)";
    let skipped: Vec<_> = checked.skipped.iter().map(|skipped| skipped.name.name()).collect();
    assert_eq!(skipped, ["prefill", "chunked", "decode", "padded"]);
    assert!(checked.skipped[..3].iter().all(|skipped| skipped.reason == reason), "{:?}", checked.skipped);
    // Rows alone and right padding it takes.
    assert_eq!(checked.checks.iter().find(|check| check.name == CheckName::Padded).unwrap().positions, 52 + 50 + 11 + 50 + 96 + 96);
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
    // One a row: five single rows and the continuation, four and three in the batches.
    let positions = |name: CheckName| checked.checks.iter().find(|check| check.name == name).unwrap().positions;
    assert_eq!((positions(CheckName::Prefill), positions(CheckName::Last)), (13, 13));
    assert_eq!(positions(CheckName::Decode), 4 + 17 + 32 + 32 + 16 + 20);
    assert_eq!(positions(CheckName::Greedy), 16);
    assert!(checked.checks.iter().all(|check| check.passed), "{checked:?}");
    assert_eq!(noticed_by(last_only(Fault::IgnoresPadding), &prompts), ["prefill", "last", "chunked", "decode", "padded"]);
    assert_eq!(noticed_by(last_only(Fault::CacheOffByOne), &prompts), ["chunked", "decode", "padded", "masked_row", "greedy"]);
}

#[test]
fn a_candidate_of_last_logits_is_compared_at_stored_positions_that_are_not_last() {
    let row = PromptSet::new("p", 1, (0..9).collect(), None, None, Some(vec![2, 5])).unwrap();
    let source = capture(&Prompts::new(vec![row]).unwrap());
    let mut candidate = Toy::last_only(Fault::None);
    let checked = verify_against_golden(&mut candidate, &source.golden, None, OracleKind::Golden, &fp32(), &mut |_| ()).unwrap();
    let of = |name: CheckName| checked.checks.iter().find(|check| check.name == name).map(|check| (check.positions, check.passed));
    assert_eq!(of(CheckName::Prefill), Some((1, true)), "cut behind column 5");
    assert_eq!(of(CheckName::Last), None, "the last column is not stored");
    assert_eq!(of(CheckName::Chunked), Some((1, true)), "parts end with columns 0, 4 and 8; cut behind column 5");
    assert_eq!(of(CheckName::Decode), Some((1, true)));
    assert!(of(CheckName::Padded).is_some_and(|(positions, passed)| positions >= 1 && passed));
}

#[test]
fn a_check_without_a_subject_is_said_not_to_apply() {
    let row = PromptSet::new("p", 1, vec![3], None, None, None).unwrap();
    let source = capture(&Prompts::new(vec![row]).unwrap());
    let checked = verify_against_golden(&mut Toy::new(Fault::None), &source.golden, None, OracleKind::Golden, &fp32(), &mut |_| ());
    let checked = checked.unwrap();
    let checks: Vec<_> = checked.checks.iter().map(|check| check.name.name()).collect();
    assert_eq!(checks, ["prefill", "last", "masked_row", "batch"]);
    let skipped: Vec<_> = checked.skipped.iter().map(|skipped| skipped.name.name()).collect();
    assert_eq!(skipped, ["chunked", "decode", "padded", "greedy"]);
}

#[test]
fn a_model_of_one_row_is_checked_one_row_at_a_time() {
    let source = capture(&prompts());
    let cache = Some(&source.cache);
    let checked = verify_against_golden(&mut Toy::new(Fault::OneRow), &source.golden, cache, OracleKind::Reference, &fp32(), &mut |_| ());
    let checked = checked.unwrap();
    let counts: Vec<_> = checked.checks.iter().map(|check| (check.name.name(), check.positions, check.passed)).collect();
    let wanted = [("prefill", 185), ("last", 6), ("chunked", 168), ("decode", 85), ("padded", 52 + 50), ("greedy", 16)];
    assert_eq!(counts, wanted.map(|(name, positions)| (name, positions, true)));
    let skipped: Vec<_> = checked.skipped.iter().map(|skipped| (skipped.name.name(), skipped.reason.as_str())).collect();
    let batches = "to set `left-padded` (4 rows for one), to set `inner-padded` (3 rows for one)";
    assert_eq!(
        skipped.iter().map(|skipped| skipped.0).collect::<Vec<_>>(),
        ["prefill", "chunked", "decode", "padded", "masked_row", "batch", "cache"]
    );
    assert_eq!([skipped[0].1, skipped[6].1], [batches, "to set `inner-padded` (3 rows for one)"]);
}

#[test]
fn what_the_runtime_fails_is_named_and_agrees_only_at_the_user_s_word() {
    let source = capture(&prompts());
    let judge = |without: &[CheckName], fault: Fault| {
        let limits = Limits { without: without.iter().copied().collect(), ..Limits::default() };
        let standard = Standard { limits, ..fp32() };
        let candidate = Candidate { session: &mut Toy::new(fault), facts: facts("toy.onnx") };
        Oracles::Reference(&source).judge(candidate, &standard, &mut |_| ())
    };
    // It fails every step after the first.
    let verdict = judge(&[], Fault::Fails);
    assert_eq!(verdict.verdict, Outcome::Error);
    let names = |list: &[Skipped]| list.iter().map(|check| check.name.name()).collect::<Vec<_>>();
    assert_eq!(names(&verdict.failed_to_run), ["chunked", "decode", "padded", "masked_row", "batch", "greedy", "cache"]);
    assert!(verdict.checks.iter().any(|check| check.name == CheckName::Prefill && check.passed), "the others are made all the same");
    let reason = verdict.reason.unwrap();
    assert!(reason.starts_with("chunked could not be run on set `edges` (toy failed: "), "{reason}");

    let without = [CheckName::Chunked, CheckName::Decode, CheckName::Padded, CheckName::MaskedRow, CheckName::Batch, CheckName::Greedy];
    assert_eq!(names(&judge(&without, Fault::Fails).failed_to_run), ["cache"]);
    let verdict = judge(&[&without[..], &[CheckName::Cache]].concat(), Fault::Fails);
    assert_eq!((verdict.verdict, verdict.reason), (Outcome::Agree, None));
    assert!(verdict.skipped.iter().any(|check| check.reason == "left out at the user's word (--without batch)"));
    // What is wrong is wrong whatever else fails.
    let verdict = judge(&[CheckName::Chunked], Fault::Factor(1.01));
    assert_eq!(verdict.verdict, Outcome::Disagree);
    assert!(verdict.checks.iter().all(|check| check.name != CheckName::Chunked));
}

#[test]
fn a_misshapen_session_is_an_error_that_names_check_and_set() {
    let source = capture(&prompts());
    let other = Golden::in_memory(vec![(source.golden.sets()[0].prompt().clone(), vec![0.0; VOCAB + 1])], VOCAB + 1, "somebody");
    let error = verify_against_golden(&mut Toy::new(Fault::None), &other, None, OracleKind::Golden, &fp32(), &mut |_| ()).unwrap_err();
    let wanted = "the prefill check of prompt set `one`: toy gave logits of shape [1, 1, 11]; [1, 1, 12] or [1, 1, 12] was wanted";
    assert_eq!(error.to_string(), wanted);
    let error = Capture::of_reference(&mut Toy::new(Fault::Factor(f32::INFINITY)), &prompts(), VOCAB).unwrap_err();
    assert_eq!(error.to_string(), "the greedy check of prompt set `spread`: toy gave inf at column 32, entry 0");
}

#[test]
fn oracles_that_disagree_are_said_so() {
    let prompts = prompts();
    let golden = capture(&prompts).golden;
    let agreement = OracleAgreement::between(&mut Toy::new(Fault::None), &golden, &fp32(), &mut |_| ());
    assert_eq!((agreement.verdict, agreement.reason), (crate::Outcome::Agree, None));
    let agreement = OracleAgreement::between(&mut Toy::new(Fault::Factor(1.1)), &golden, &fp32(), &mut |_| ());
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
        let checks = crate::compare(&memory.golden, &file.golden, &Tolerance::of(Precision::Fp32)).unwrap();
        assert_eq!(checks.len(), prompts.sets().len() + 1);
        assert!(checks.iter().all(|(_, check)| check.max_abs == 0.0 && check.passed));
        let verdict = Oracles::Both(&file.golden, &memory);
        let facts = crate::verdict::tests::facts("model.onnx");
        let candidate = crate::Candidate { session: &mut Toy::new(Fault::None), facts };
        let verdict = verdict.judge(candidate, &fp32(), &mut |_| ());
        // Seven against the golden in the file and its continuation, and those of the memory with the cache besides.
        assert_eq!((verdict.verdict, verdict.checks.len()), (crate::Outcome::Agree, 8 + 9));
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
    let wrong = |other: PromptSet| crate::compare(&base, &golden(other), &Tolerance::of(Precision::Fp32)).unwrap_err().to_string();
    assert!(wrong(set("q", &[1, 2, 3], None)).ends_with("set `q` is in the second file only"));
    assert!(wrong(set("p", &[1, 2], None)).ends_with("`p.input_ids` is [1, 3] and [1, 2]"));
    assert!(wrong(set("p", &[1, 2, 4], None)).ends_with("`p.input_ids` is 3 and 4 at row 0, column 2"));
    let some = golden(set("p", &[1, 2, 3], Some(vec![2])));
    let checks = crate::compare(&base, &some, &Tolerance::of(Precision::Fp32)).unwrap();
    assert_eq!((checks[0].1.positions, checks[0].1.max_abs), (1, 0.0));
}

/// What rounding does to the toy: its logits times 1 + 1e-5.
fn noise(source: &Capture) -> Noise {
    Noise::measure(&mut Toy::new(Fault::Factor(1.000_01)), &source.golden, Some(&source.cache), 1.0).unwrap()
}

#[test]
fn a_calibrated_check_allows_a_factor_times_the_floor_and_no_more() {
    let source = capture(&prompts());
    let noise = noise(&source);
    assert!(noise.covers(&source.golden));
    for (precision, factor) in [(Precision::Fp32, tolerance::FACTOR_FP32), (Precision::Fp16, tolerance::FACTOR_16_BITS)] {
        let standard = Standard { reference: Some(&noise), ..Standard::fixed(precision) };
        let check = |times: f64| {
            let mut candidate = Toy::new(Fault::Factor((1.0 + times * 1e-5) as f32));
            Oracles::Reference(&source).judge(
                crate::Candidate { session: &mut candidate, facts: crate::verdict::tests::facts("model.onnx") },
                &standard,
                &mut |_| (),
            )
        };
        let within = check(0.9 * factor);
        assert_eq!(within.verdict, crate::Outcome::Agree, "{:?}", within.reason);
        let prefill = &within.checks[0];
        assert_eq!((prefill.tolerance.basis, prefill.tolerance.factor), (crate::Basis::Calibrated, Some(factor)));
        let ratio = prefill.error_over_floor.unwrap();
        assert!((ratio / (0.9 * factor) - 1.0).abs() < 0.05, "{ratio} instead of {}", 0.9 * factor);
        let beyond = check(1.1 * factor);
        assert_eq!(beyond.verdict, crate::Outcome::Disagree);
        assert!(beyond.checks[0].failures[0].contains("(floor "), "{:?}", beyond.checks[0].failures);
    }
}

#[test]
fn a_scaled_run_stands_for_a_finer_one() {
    let source = capture(&prompts());
    let measure = |factor: f32, scale: f64| {
        let noise = Noise::measure(&mut Toy::new(Fault::Factor(factor)), &source.golden, None, scale).unwrap();
        let set = &source.golden.sets()[3];
        noise.at(set, 0, 5).unwrap()
    };
    // Powers of two, so that the products are exact: 1 + 2⁻¹⁰ at 2⁻⁴, and 1 + 2⁻¹⁴.
    let (coarse, fine) = (measure(1.0 + 2f32.powi(-10), 2f64.powi(-4)), measure(1.0 + 2f32.powi(-14), 1.0));
    for (coarse, fine) in [(coarse.max_abs, fine.max_abs), (coarse.mean_abs, fine.mean_abs), (coarse.kl, fine.kl)] {
        assert!((coarse / fine - 1.0).abs() < 0.02, "{coarse} {fine}");
    }
}

#[test]
fn a_floor_of_nothing_does_not_fail_what_is_right() {
    let source = capture(&prompts());
    let exact = Noise::measure(&mut Toy::new(Fault::None), &source.golden, Some(&source.cache), 1.0).unwrap();
    let standard = Standard { reference: Some(&exact), ..Standard::fixed(Precision::Fp32) };
    // Two steps of fp32.
    let mut candidate = Toy::new(Fault::Factor(1.000_000_2));
    let facts = crate::verdict::tests::facts("model.onnx");
    let verdict = Oracles::Reference(&source).judge(crate::Candidate { session: &mut candidate, facts }, &standard, &mut |_| ());
    assert_eq!(verdict.verdict, crate::Outcome::Agree, "{:?}", verdict.reason);
}

#[test]
fn limits_of_the_user_replace_the_floor() {
    let source = capture(&prompts());
    let noise = noise(&source);
    let failed = |fault: Fault, limits: Limits| -> Vec<String> {
        let standard = Standard { reference: Some(&noise), limits, ..Standard::fixed(Precision::Fp32) };
        let cache = Some(&source.cache);
        let checked = verify_against_golden(&mut Toy::new(fault), &source.golden, cache, OracleKind::Reference, &standard, &mut |_| ());
        checked.unwrap().checks.iter().filter(|check| !check.passed).map(|check| check.name.to_string()).collect()
    };
    let factor = Fault::Factor(1.01);
    assert!(failed(factor, Limits::default()).contains(&"prefill".to_owned()));
    assert_eq!(failed(factor, Limits { max_abs: Some(1.0), ..Limits::default() }), [""; 0]);
    assert_eq!(failed(factor, Limits { max_kl: Some(0.1), min_top1: Some(1.0), ..Limits::default() }), [""; 0]);
    assert!(failed(factor, Limits { max_abs: Some(0.01), ..Limits::default() }).contains(&"last".to_owned()));
    assert!(failed(factor, Limits { max_kl: Some(1e-9), ..Limits::default() }).contains(&"greedy".to_owned()));
    assert!(failed(Fault::RowsSwapped, Limits { min_top1: Some(0.9), ..Limits::default() }).contains(&"masked_row".to_owned()));
    // A limit on divergences says nothing of keys and values.
    assert_eq!(failed(Fault::CacheRowsShifted, Limits { max_kl: Some(1e9), ..Limits::default() }), ["cache"]);
    assert_eq!(failed(Fault::CacheRowsShifted, Limits { max_abs: Some(1e9), ..Limits::default() }), [""; 0]);
}

/// A rounded run that leaves its dtype's range has no floor.
#[test]
fn noise_that_is_not_finite_is_none() {
    let source = capture(&prompts());
    let error = Noise::measure(&mut Toy::new(Fault::Factor(f32::INFINITY)), &source.golden, None, 1.0).unwrap_err();
    assert!(error.to_string().contains("not finite at row 0, column 0, once rounded"), "{error}");
}
