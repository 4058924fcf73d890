use plansmith_files::Digest;
use plansmith_tensor::DType;
use serde_json::Value;

use super::*;
use crate::metrics::{Metrics, Place};
use crate::precision::Precision;
use crate::tolerance::Tolerance;

pub(crate) fn facts(path: &str) -> CandidateFacts {
    let sha256 = Digest::of(b"graph");
    CandidateFacts { path: path.to_owned(), sha256, runtime: "rten".to_owned(), storage: DType::BF16, compute: DType::F32 }
}

fn check(max_rel: f64) -> Check {
    let metrics = Metrics {
        positions: 312,
        scale: 2.0,
        max_abs: 2.0 * max_rel,
        max_rel,
        kl_mean: Some(1e-12),
        kl_p99: Some(2e-12),
        kl_max: Some(3e-12),
        top1_agreement: Some(1.0),
        top5_overlap: Some(0.99),
        worst: Some(Place { row: 2, column: 5 }),
        ..Metrics::default()
    };
    Check::new(CheckName::Padded, OracleKind::Reference, &metrics, "left-padded".to_owned(), &Tolerance::of(Precision::Fp32))
}

pub(crate) fn candidate(path: &str, max_rel: f64) -> CandidateVerdict {
    let skipped = Skipped { name: CheckName::Cache, oracle: OracleKind::Golden, reason: CheckName::Cache.needs().to_owned() };
    CandidateVerdict::checked(facts(path), Checked { checks: vec![check(max_rel)], skipped: vec![skipped], ..Checked::default() })
}

pub(crate) fn plan() -> CandidateVerdict {
    CandidateVerdict::not_executed(facts("decode.plan"), "no GPU: header and hashes agree with the manifest".to_owned())
}

fn prompts() -> PromptFacts {
    PromptFacts { origin: "builtin".to_owned(), sha256: Digest::of(b"prompts"), sets: 7 }
}

fn golden(producer: &str) -> GoldenFacts {
    GoldenFacts { path: "golden.safetensors".to_owned(), sha256: Digest::of(b"golden"), producer: Some(producer.to_owned()) }
}

pub(crate) fn verdict(candidates: Vec<CandidateVerdict>) -> Verdict {
    let source = SourceFacts { path: "<m&m>".to_owned(), ..SourceFacts::default() };
    Verdict::conclude(source, Evidence::Reference(prompts()), candidates)
}

#[test]
fn the_json_is_that_of_the_contract() {
    let json = verdict(vec![candidate("model.onnx", 3e-6), plan()]).to_json().unwrap();
    assert!(json.ends_with("}\n"));
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&value["schema_version"], &value["verdict"], &value["oracle"]), (&1.into(), &"agree".into(), &"reference".into()));
    let first = &value["candidates"][0];
    for (key, wanted) in [("path", "model.onnx"), ("runtime", "rten"), ("storage", "bf16"), ("compute", "fp32"), ("verdict", "agree")] {
        assert_eq!(first[key], wanted, "{key}");
    }
    assert_eq!(first["sha256"].as_str().unwrap().len(), 64);
    assert!(first["reason"].is_null() && first["first_divergence"].is_null());
    assert!(first.as_object().unwrap().contains_key("first_divergence"));
    let check = &first["checks"][0];
    assert_eq!((&check["name"], &check["passed"], &check["positions"]), (&"padded".into(), &true.into(), &312.into()));
    for key in ["max_abs", "max_rel", "kl_mean", "kl_p99", "kl_max", "top1_agreement", "top5_overlap", "nonfinite"] {
        assert!(check[key].is_number(), "{key}");
    }
    assert!(check["tolerance"].is_object());
    assert_eq!(value["candidates"][1]["verdict"], "not_executed");
    assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap().to_json().unwrap(), json);
}

#[test]
fn exit_codes_follow_the_worst_candidate() {
    let of = |candidates: Vec<CandidateVerdict>| {
        let verdict = verdict(candidates);
        (verdict.verdict, verdict.exit_code(false), verdict.exit_code(true))
    };
    let failed = || CandidateVerdict::failed(facts("x.onnx"), "no library".to_owned());
    assert_eq!(of(vec![candidate("a", 0.0)]), (Outcome::Agree, 0, 0));
    assert_eq!(of(vec![candidate("a", 0.0), plan()]), (Outcome::Agree, 0, 1));
    assert_eq!(of(vec![candidate("a", 0.0), candidate("b", 0.1), failed()]), (Outcome::Disagree, 1, 1));
    assert_eq!(of(vec![candidate("a", 0.0), failed()]), (Outcome::Error, 2, 2));
    assert_eq!(of(vec![]), (Outcome::Error, 2, 2));
    let nothing = CandidateVerdict::checked(facts("a"), Checked::default());
    assert_eq!(of(vec![nothing]), (Outcome::Error, 2, 2));
}

#[test]
fn oracles_that_disagree_outweigh_candidates_that_agree() {
    let checks = vec![check(0.5)];
    let oracles = OracleAgreement::of(Ok(Checked { checks, ..Checked::default() }));
    let evidence = Evidence::Both(golden("tools/capture_golden.py"), prompts(), oracles);
    let verdict = Verdict::conclude(SourceFacts::default(), evidence, vec![candidate("a", 0.0)]);
    assert_eq!((verdict.verdict, verdict.exit_code(false)), (Outcome::Disagree, 1));
    assert!(verdict.conclusion().contains("config.json was misread or the golden is of other weights"), "{}", verdict.conclusion());
}

#[test]
fn the_summary_names_the_oracle_and_last_what_was_not_executed() {
    let summary = verdict(vec![candidate("model.onnx", 3e-6), candidate("bad.onnx", 0.5), plan()]).summary();
    let wanted = "\
model.onnx on rten, bf16 stored, fp32 computed: agree
  padded     reference agree     312 positions  max_rel 3.0e-6  KL max 3.0e-12  top-1 100.00 %
  cache      golden    does not apply: needs a source that can be executed
bad.onnx on rten, bf16 stored, fp32 computed: disagree: outside the tolerance: padded
  padded     reference DIFFER    312 positions  max_rel 5.0e-1  KL max 3.0e-12  top-1 100.00 %
             max_rel 5.00e-1 exceeds 1e-4; worst in set `left-padded`, row 2, column 5
  cache      golden    does not apply: needs a source that can be executed
decode.plan on rten, bf16 stored, fp32 computed: not_executed: no GPU: header and hashes agree with the manifest
disagree (oracle: the built-in reference); 1 of 3 candidates disagree
not_executed on this host: decode.plan";
    assert_eq!(summary, wanted);
}

#[test]
fn the_conclusion_says_what_is_proved() {
    let of = |evidence: Evidence, candidates| Verdict::conclude(SourceFacts::default(), evidence, candidates).conclusion();
    let good = || vec![candidate("a", 0.0)];
    let elsewhere = of(Evidence::Golden(golden("tools/capture_golden.py")), good());
    assert_eq!(
        elsewhere,
        "agree with the golden logits `golden.safetensors` (computed by tools/capture_golden.py): this proves graph, conversion and runtime, and \
         the reading of config.json"
    );
    let unsigned = of(Evidence::Golden(GoldenFacts { producer: None, ..golden("") }), good());
    assert!(unsigned.ends_with("not the reading of config.json (the golden does not say what computed it)"), "{unsigned}");
    for evidence in [Evidence::Reference(prompts()), Evidence::Golden(golden(crate::REFERENCE_PRODUCER))] {
        let conclusion = of(evidence, good());
        assert!(conclusion.contains("reference") && conclusion.contains("not the reading of config.json"), "{conclusion}");
    }
    let nothing = of(Evidence::Reference(prompts()), vec![plan()]);
    assert_eq!(nothing, "nothing was executed, so nothing was compared with the built-in reference");
}
