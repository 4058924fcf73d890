//! Many plans with the real worker: side by side, from the cache, stopped in the middle.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;

use std::path::{Path, PathBuf};

use common::{decoder_in, names, paths, testdata};
use plansmith_engine::{
    Architecture, BuildReport, BuildRequest, Cancel, Error, Farm, FarmEvent, Flavor, Job, Opened, PlanCache, PlanManifest, PlanSession,
    ProfilesAs, Weights, WorkerPaths, check_plan, manifest_path,
};

// The test decoder has few heads, for which TensorRT has no kernel where the sequence is fixed.
const PREFILL: &str = "prefill:batch=1..1..2,sequence=1..8..32,past=0..0..32";
const DECODE: &str = "decode:batch=1..1..2,sequence=1..4..16,past=0..8..32";

/// A plan of the test decoder for each of two architectures.
fn jobs(folder: &Path) -> Vec<Job> {
    let job = |architecture: Architecture| {
        let plan = folder.join(architecture.name()).join("decode.plan");
        Job { paths: paths(), request: BuildRequest::new(testdata("decoder.onnx"), plan, DECODE.parse().unwrap(), vec![architecture]) }
    };
    vec![job(Architecture::Sm86), job(Architecture::Sm120)]
}

fn farm(cache: Option<&Path>) -> Farm {
    Farm { cache: cache.map(PlanCache::at), jobs: 2, ..Farm::usual() }
}

fn run(farm: &Farm, jobs: &[Job]) -> Vec<BuildReport> {
    farm.run(jobs, &mut |_| {}).unwrap()
}

fn hashes(reports: &[BuildReport]) -> Vec<String> {
    reports.iter().map(|report| report.manifest.plan.sha256.to_string()).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let below = |name: String| {
        let path = folder.join(name);
        if path.is_dir() { files(&path) } else { vec![path] }
    };
    names(folder).into_iter().flat_map(below).collect()
}

#[test]
fn what_a_target_cannot_run_is_refused_before_any_worker_starts() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = decoder_in(folder.path(), "model");
    let mut model = plansmith_onnx::load(&onnx).unwrap();
    let nodes = &mut model.graph.as_mut().unwrap().node;
    // The scores in bf16: what was built with TensorRT-RTX 1.7 for sm75 said `the model contains HW-specific datatypes: b16`.
    let to_bf16 = nodes.iter_mut().find(|node| node.op_type() == "Cast").unwrap();
    to_bf16.attribute.iter_mut().find(|attribute| attribute.name() == "to").unwrap().i = Some(16);
    std::fs::write(&onnx, plansmith_onnx::encode(&model)).unwrap();

    let nowhere = WorkerPaths { flavor: Flavor::Rtx, worker: "/nowhere/worker".into(), libraries: "/nowhere".into() };
    let request = |architectures| BuildRequest::new(&onnx, folder.path().join("p/decode.plan"), DECODE.parse().unwrap(), architectures);
    let job = |architectures| Job { paths: nowhere.clone(), request: request(architectures) };
    let farm = Farm { cache: None, ..Farm::usual() };
    let refused = farm.run(&[job(vec![Architecture::Sm80]), job(vec![Architecture::Sm75])], &mut |_| panic!("nothing may start"));
    let (index, error) = refused.unwrap_err();
    assert_eq!(index, 1);
    assert!(error.to_string().contains("sm75 has no BF16") && error.to_string().contains("sm80 is the first"), "{error}");
    assert!(!folder.path().join("p").exists());
    // What is supported is refused for want of a worker.
    let (_, error) = farm.run(&[job(vec![Architecture::Sm80])], &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("/nowhere"), "{error}");
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn the_second_run_takes_all_from_the_cache_and_what_is_corrupt_is_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let (first, second, third) = (folder.path().join("1"), folder.path().join("2"), folder.path().join("3"));
    let built = run(&farm(Some(&cache)), &jobs(&first));
    assert!(built.iter().all(|report| !report.cached));

    let mut started = 0;
    let taken =
        farm(Some(&cache)).run(&jobs(&second), &mut |event| started += usize::from(matches!(event, FarmEvent::Started(..)))).unwrap();
    assert_eq!((started, taken.iter().filter(|report| report.cached).count()), (0, 2));
    assert_eq!(hashes(&taken), hashes(&built));
    for report in &taken {
        assert_eq!(check_plan(&report.plan).unwrap().manifest, PlanManifest::read(&report.manifest_path).unwrap());
        assert!(report.peak_bytes > 100 << 20);
    }
    // Nothing of it says from where it was taken.
    assert_eq!(std::fs::read(manifest_path(&built[0].plan)).unwrap(), std::fs::read(manifest_path(&taken[0].plan)).unwrap());

    // One byte of one entry, one entry cut short.
    let mut plans: Vec<_> =
        files(&cache).into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "plan")).collect();
    assert_eq!(plans.len(), 2);
    let mut bytes = std::fs::read(&plans[0]).unwrap();
    bytes[1_000_000] ^= 0xff;
    std::fs::write(&plans[0], &bytes).unwrap();
    std::fs::write(&plans[1], &bytes[..1000]).unwrap();
    let again = run(&farm(Some(&cache)), &jobs(&third));
    assert!(again.iter().all(|report| !report.cached));
    let fixed = hashes(&again) == hashes(&built);
    assert!(fixed || matches!(again[0].manifest.reproducible, plansmith_engine::Reproducibility::NotTried { .. }));
    plans.sort();
    let mut now: Vec<_> = files(&cache).into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "plan")).collect();
    now.sort();
    assert_eq!(now, plans, "the entries are whole again and nothing else is there");
    assert!(run(&farm(Some(&cache)), &jobs(&third)).iter().all(|report| report.cached));

    // Another graph has another key, even where only its data differs.
    let other = decoder_in(folder.path(), "model");
    let data = other.with_file_name("decoder.data");
    let mut bytes = std::fs::read(&data).unwrap();
    bytes[0] ^= 1;
    std::fs::write(&data, bytes).unwrap();
    let mut jobs = jobs(&third);
    jobs.truncate(1);
    jobs[0].request.onnx = other;
    assert!(!run(&farm(Some(&cache)), &jobs)[0].cached);
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn two_that_build_the_same_at_once_both_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let both: Vec<Vec<BuildReport>> = std::thread::scope(|scope| {
        let build = |name: &str| {
            let (cache, jobs) = (cache.clone(), jobs(&folder.path().join(name)));
            scope.spawn(move || run(&farm(Some(&cache)), &jobs[..1]))
        };
        [build("1"), build("2")].map(|thread| thread.join().unwrap()).into()
    });
    for reports in &both {
        check_plan(&reports[0].plan).unwrap();
    }
    let kept = files(&cache).into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "plan"));
    assert_eq!(kept.count(), 1);
    assert!(files(&cache).iter().all(|path| !path.display().to_string().contains(".partial")));
    assert!(run(&farm(Some(&cache)), &jobs(&folder.path().join("3"))[..1])[0].cached);
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_small_budget_builds_one_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let farm = Farm { memory: 1, ..farm(None) };
    let (mut running, mut most) = (0_usize, 0);
    let reports = farm.run(&jobs(folder.path()), &mut |event| match event {
        FarmEvent::Started(..) => {
            running += 1;
            most = most.max(running);
        }
        FarmEvent::Done(..) => running -= 1,
        _ => {}
    });
    assert_eq!((most, reports.unwrap().len()), (1, 2));
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_wish_to_stop_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, out) = (folder.path().join("cache"), folder.path().join("out"));
    let cancel = Cancel::default();
    let farm = Farm { cancel: cancel.clone(), ..farm(Some(&cache)) };
    let stopped = farm.run(&jobs(&out), &mut |event| {
        if matches!(event, FarmEvent::Worker(..)) {
            cancel.now();
        }
    });
    assert!(matches!(stopped.unwrap_err().1, Error::Cancelled { .. }));
    assert!(!out.exists());
    assert!(!cache.exists() || files(&cache).is_empty());
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_plan_with_several_profiles_records_what_they_cost() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = jobs(folder.path()).remove(0);
    job.request.profiles = vec![PREFILL.parse().unwrap(), DECODE.parse().unwrap()];
    job.request.profiles_as = ProfilesAs::OnePlan;
    let report = run(&farm(None), std::slice::from_ref(&job)).remove(0);
    let manifest = PlanManifest::read(&report.manifest_path).unwrap();
    let names: Vec<_> = manifest.profiles.iter().map(|record| record.profile.name()).collect();
    assert_eq!(names, ["prefill", "decode"]);
    // Mask: past + sequence, in each corner.
    let corners = |index: usize| {
        let mask = manifest.profiles[index].inputs.iter().find(|input| input.name == "attention_mask").unwrap();
        (mask.min.clone(), mask.opt.clone(), mask.max.clone())
    };
    assert_eq!(corners(0), (vec![1, 1], vec![1, 8], vec![2, 64]));
    assert_eq!(corners(1), (vec![1, 1], vec![1, 12], vec![2, 48]));
    let cost = manifest.cost.unwrap();
    // 6144 bytes of data (`stat testdata/engine/decoder.data`), and what is inline.
    assert!(cost.weight_bytes >= 6144 && cost.weight_bytes < 10_000, "{cost:?}");
    assert_eq!((cost.profiles_as, cost.plan_permille_of_weights), (ProfilesAs::OnePlan, manifest.plan.bytes * 1000 / cost.weight_bytes));
    match PlanSession::open(&paths(), &[report.plan]).unwrap() {
        Opened::NotExecuted(_) => {}
        Opened::Session(session) => assert_eq!(session.profiles().len(), 2),
    }
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_graph_that_changes_while_it_is_built_gives_no_plan_and_no_entry() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, out) = (folder.path().join("cache"), folder.path().join("out"));
    let onnx = decoder_in(folder.path(), "model");
    let mut jobs = jobs(&out);
    jobs.truncate(1);
    jobs[0].request.onnx = onnx.clone();
    for name in ["decoder.data", "decoder.onnx"] {
        let path = onnx.with_file_name(name);
        let bytes = std::fs::read(&path).unwrap();
        let changed = farm(Some(&cache)).run(&jobs, &mut |event| {
            if matches!(event, FarmEvent::Started(..)) {
                // The bytes are the same again: what the worker read in between is unknown.
                std::fs::write(&path, &bytes).unwrap();
            }
        });
        let (_, error) = changed.unwrap_err();
        assert!(matches!(&error, Error::Changed { path: which } if which.ends_with(name)), "{error}");
        assert!(!out.exists() && (!cache.exists() || files(&cache).is_empty()));
    }
    assert!(!run(&farm(Some(&cache)), &jobs)[0].cached);
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn an_entry_is_taken_for_what_it_was_made_for_and_gains_a_proof() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let job = |name: &str, weights, prove_reproducible| {
        let mut job = jobs(&folder.path().join(name)).remove(0);
        (job.request.weights, job.request.prove_reproducible) = (weights, prove_reproducible);
        run(&farm(Some(&cache)), &[job]).remove(0)
    };
    let entries = || files(&cache).into_iter().filter(|path| path.ends_with("model.plan")).map(|path| path.parent().unwrap().to_owned());
    job("a", Weights::Embedded, false);
    job("b", Weights::Stripped, false);
    let [one, other] = entries().collect::<Vec<_>>().try_into().unwrap();
    // Stripped plans are kept too; each says where its data lies from where it is.
    let taken = job("deep/er/c", Weights::Stripped, false);
    assert!(taken.cached);
    check_plan(&taken.plan).unwrap();
    // Two entries that changed places are none.
    let aside = folder.path().join("aside");
    for (from, to) in [(&one, &aside), (&other, &one), (&aside, &other)] {
        std::fs::rename(from, to).unwrap();
    }
    assert!(!job("d", Weights::Stripped, false).cached);
    // Nor is one whose manifest was edited.
    let embedded = job("e", Weights::Embedded, false);
    assert!(!embedded.cached);
    for entry in entries() {
        let manifest = entry.join("model.json");
        let text = std::fs::read_to_string(&manifest).unwrap();
        std::fs::write(&manifest, text.replacen("\"tf32\": false", "\"tf32\": true", 1)).unwrap();
    }
    assert!(!job("f", Weights::Embedded, false).cached);
    // A proof that was asked for is made once, and kept.
    let proved = job("g", Weights::Embedded, true);
    if proved.manifest.is_proved() {
        assert!(!proved.cached);
        let again = job("h", Weights::Embedded, true);
        assert!(again.cached && again.manifest.is_proved());
    }
}
