//! Plans that are executed. The numbers come from ONNX Runtime 1.32 on the same graph (fp16 on a CPU).

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;

use common::{paths, testdata};
use plansmith_engine::{
    Architecture, BuildHost, BuildRequest, Error, Flavor, Lookup, Opened, PlanSession, StepTokens, TimingCache, Worker, WorkerPaths,
};

const PREFILL: [f32; 8] = [-1.92188, -1.25098, 0.18433, -0.92529, -1.4873, 1.13086, -0.03848, -1.18359];
const DECODE: [f32; 8] = [-1.58691, -0.28076, 0.49951, -1.01367, -2.07812, 0.0976, 0.11877, -1.45703];

fn close(logits: &[u8], position: usize, expected: &[f32; 8]) {
    for (index, expected) in expected.iter().enumerate() {
        let at = (position * 32 + index) * 4;
        let found = f32::from_le_bytes(logits[at..at + 4].try_into().unwrap());
        assert!((found - expected).abs() < 1e-2, "logit {index} is {found}; ONNX Runtime has {expected}");
    }
}

#[test]
#[ignore = "needs a GPU"]
fn prefill_and_decode_share_a_cache() {
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::spawn(&paths()).unwrap();
    let gpu = worker.greeting().gpu.clone().expect("this test needs a GPU");
    let architecture: Architecture = format!("sm{}", gpu.compute.replace('.', "")).parse().unwrap();
    drop(worker);
    let plans: Vec<_> = ["prefill:batch=1,sequence=1..4..16,past=0", "decode:batch=1,sequence=1,past=1..8..32"]
        .into_iter()
        .map(|profile| {
            let profile: plansmith_engine::Profile = profile.parse().unwrap();
            let plan = folder.path().join(profile.name()).with_extension("plan");
            let request = BuildRequest::new(testdata("decoder.onnx"), &plan, profile, vec![architecture]);
            Worker::spawn(&paths()).unwrap().build(&request, &mut |_| {}).unwrap();
            plan
        })
        .collect();
    let Opened::Session(mut session) = PlanSession::open(&paths(), &plans).unwrap() else { panic!("not executed") };
    for _ in 0..2 {
        session.reset(1).unwrap();
        assert!(session.cache().unwrap().is_empty());
        let tokens = StepTokens { batch: 1, sequence: 3, input_ids: &[1, 2, 3], attention_mask: &[1; 3], position_ids: &[0, 1, 2] };
        let logits = session.step(&tokens).unwrap();
        assert_eq!(logits.shape, [1, 3, 32]);
        close(&logits.bytes, 2, &PREFILL);
        let tokens = StepTokens { batch: 1, sequence: 1, input_ids: &[4], attention_mask: &[1; 4], position_ids: &[3] };
        close(&session.step(&tokens).unwrap().bytes, 0, &DECODE);
        let cache = session.cache().unwrap();
        assert_eq!((cache.len(), session.past()), (2, 4));
        assert_eq!(cache[0].tensor.shape, [1, 1, 4, 16]);
        // A longer step than any profile takes is refused, and the session stays usable.
        let tokens = StepTokens { batch: 1, sequence: 2, input_ids: &[5, 6], attention_mask: &[1; 6], position_ids: &[4, 5] };
        assert!(session.step(&tokens).unwrap_err().to_string().contains("no profile fits batch=1 sequence=2 past=4"));
    }
}

#[test]
#[ignore = "needs a GPU and the enterprise flavour"]
fn the_enterprise_flavour_keeps_what_it_measures() {
    let folder = tempfile::tempdir().unwrap();
    let paths = WorkerPaths::find(Flavor::Enterprise, &Lookup::default()).unwrap();
    let (plan, timings) = (folder.path().join("step.plan"), folder.path().join("gpu.timings"));
    let build = |file: &std::path::Path| {
        let profile = "step:batch=1,sequence=1..4..16,past=0..8..32".parse().unwrap();
        let request = BuildRequest::new(testdata("decoder.onnx"), &plan, profile, Vec::new());
        let request = BuildRequest { timing_cache: TimingCache::File(file.to_owned()), ..request };
        Worker::spawn(&paths).unwrap().build(&request, &mut |_| {})
    };
    let first = build(&timings).unwrap().manifest;
    assert!(matches!(first.host, BuildHost::Gpu(_)));
    let first = first.timing_cache.unwrap();
    assert!(first.read.is_none() && first.refused.is_none() && first.not_kept.is_none(), "{first:?}");
    assert_eq!(plansmith_files::sha256_file(&timings).unwrap(), first.written);
    // The second build takes it: it is this GPU's and this library's.
    let second = build(&timings).unwrap().manifest.timing_cache.unwrap();
    assert_eq!((second.read, second.refused), (Some(first.written), None));

    let Opened::Session(mut session) = PlanSession::open(&paths, std::slice::from_ref(&plan)).unwrap() else { panic!("not executed") };
    session.reset(1).unwrap();
    let tokens = StepTokens { batch: 1, sequence: 3, input_ids: &[1, 2, 3], attention_mask: &[1; 3], position_ids: &[0, 1, 2] };
    close(&session.step(&tokens).unwrap().bytes, 2, &PREFILL);
    let tokens = StepTokens { batch: 1, sequence: 1, input_ids: &[4], attention_mask: &[1; 4], position_ids: &[3] };
    close(&session.step(&tokens).unwrap().bytes, 0, &DECODE);

    let damaged = folder.path().join("damaged.timings");
    let mut bytes = std::fs::read(&timings).unwrap();
    bytes.truncate(bytes.len() / 2);
    std::fs::write(&damaged, &bytes).unwrap();
    let error = build(&damaged).unwrap_err();
    assert!(matches!(error, Error::TimingCache { .. }), "{error}");
    assert_eq!(std::fs::read(&damaged).unwrap(), bytes);
}
