//! The real worker with the real libraries.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{decoder_in, names, paths, testdata};
use plansmith_engine::{
    Architecture, BuildReport, BuildRequest, CachePair, Error, Event, Opened, PlanHeader, PlanManifest, PlanSession, RandomisedAddresses,
    Reproducibility, Worker, check_plan, manifest_path,
};
use rustix::process::{Pid, Signal, kill_process};

fn request(onnx: &Path, plan: &Path) -> BuildRequest {
    let profile = "decode:batch=1..1..2,sequence=1..4..16,past=0..8..32".parse().unwrap();
    BuildRequest::new(onnx, plan, profile, vec![Architecture::Sm89, Architecture::Sm86])
}

fn build(onnx: &Path, plan: &Path) -> Result<BuildReport, Error> {
    Worker::spawn(&paths())?.build(&request(onnx, plan), &mut |_| {})
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_plan_and_its_manifest_say_how_it_was_built() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("engines/decode.plan");
    let mut phases = Vec::new();
    let worker = Worker::spawn(&paths()).unwrap();
    let without_gpu = worker.greeting().gpu.is_none();
    let report = worker
        .build(&request(&testdata("decoder.onnx"), &plan), &mut |event| {
            if let Event::PhaseStarted { phase, .. } = event {
                phases.push(phase);
            }
        })
        .unwrap();
    assert_eq!(names(plan.parent().unwrap()), ["decode.json", "decode.plan"]);
    assert_eq!((phases.first().unwrap().as_str(), phases.last().unwrap().as_str()), ("parse", "write"));
    assert!(phases.len() > 3, "TensorRT's own phases are passed on: {phases:?}");

    let manifest = PlanManifest::read(&manifest_path(&plan)).unwrap();
    assert_eq!(manifest, report.manifest);
    assert_eq!(check_plan(&plan).unwrap().checked.len(), 3);
    let header = PlanHeader::read(&plan).unwrap();
    assert_eq!(header.architectures(), [Architecture::Sm86, Architecture::Sm89]);
    assert_eq!(header.version.to_string(), "1.7.1.116");
    assert_eq!(manifest.plan.header, header);
    assert_eq!(manifest.plan.bytes, std::fs::metadata(&plan).unwrap().len());
    // `sha256sum` of the files in PyPI's tensorrt-rtx-cu12-libs 1.7.1.116.
    let library = manifest.library;
    assert_eq!(library.core.sha256.to_string(), "fa73b07d275bd89caee07110122c44702d7ab54a8c915c005e7732a66a6b776e");
    assert_eq!(library.parser.sha256.to_string(), "27be1f67ef28683b54390b6cbc7ec3efc75b39c8ebc4c683cb8603bcfd0b8896");
    assert!(manifest.builder.strongly_typed && !manifest.builder.tf32);
    assert_eq!(manifest.profiles[0].inputs[3].max, [2, 1, 32, 16]);
    assert_eq!(manifest.inputs[3].shape, [-1, 1, -1, 16]);
    let pair = |part: &str| CachePair { past: format!("past_key_values.0.{part}"), present: format!("present.0.{part}"), aliased: false };
    assert_eq!(manifest.cache, [pair("key"), pair("value")]);
    assert!(report.peak_bytes > 100 << 20, "the core library alone is larger than {}", report.peak_bytes);

    // Without a GPU the plan is checked as far as that goes, and said to be not executed.
    match PlanSession::open(&paths(), &[plan]).unwrap() {
        Opened::NotExecuted(reason) => {
            assert!(without_gpu && reason.why.contains("CUDA"), "{reason:?}");
            assert_eq!(reason.checked.len(), 5, "{reason:?}");
        }
        Opened::Session(_) => assert!(!without_gpu),
    }
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn builds_in_different_folders_are_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let other = decoder_in(folder.path(), "another folder, with a longer name");
    let first = build(&testdata("decoder.onnx"), &folder.path().join("1/decode.plan")).unwrap();
    let mut proving = request(&other, &folder.path().join("2/elsewhere/decode.plan"));
    proving.prove_reproducible = true;
    let second = Worker::spawn(&paths()).unwrap().build(&proving, &mut |_| {}).unwrap();
    let state = Worker::spawn(&paths()).unwrap().greeting().randomised_addresses.clone();
    match state {
        RandomisedAddresses::Off => {
            assert_eq!(first.manifest.plan.sha256, second.manifest.plan.sha256);
            assert_eq!(second.manifest.reproducible, Reproducibility::Proved { randomised_addresses: RandomisedAddresses::Off });
        }
        // Where the system refuses, nothing is claimed.
        on => assert_eq!(second.manifest.reproducible, Reproducibility::NotTried { randomised_addresses: on }),
    }
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn every_node_that_the_parser_refuses_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = decoder_in(folder.path(), "model");
    let mut model = plansmith_onnx::load(&onnx).unwrap();
    let nodes = &mut model.graph.as_mut().unwrap().node;
    let index = nodes.iter().position(|node| node.name() == "/layers.0/mixed").unwrap();
    nodes[index].op_type = Some("NoSuchOperator".to_owned());
    std::fs::write(&onnx, plansmith_onnx::encode(&model)).unwrap();

    let plan = folder.path().join("engines/decode.plan");
    let error = build(&onnx, &plan).unwrap_err();
    let Error::Parse { nodes, .. } = &error else { panic!("{error}") };
    let node = nodes.iter().find(|node| node.name == "/layers.0/mixed").unwrap_or_else(|| panic!("{error}"));
    assert_eq!((node.index, node.operator.as_str()), (Some(index as u32), "NoSuchOperator"));
    assert!(node.position.contains(".cpp:"), "{node:?}");
    assert!(error.to_string().contains("`/layers.0/mixed` (NoSuchOperator)"), "{error}");
    assert!(names(plan.parent().unwrap()).is_empty());
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn an_input_that_nothing_reads_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = decoder_in(folder.path(), "model");
    let mut model = plansmith_onnx::load(&onnx).unwrap();
    let nodes = &mut model.graph.as_mut().unwrap().node;
    nodes.retain(|node| !["position_rows", "position_values", "position_steps", "placed"].contains(&node.output[0].as_str()));
    let scores = nodes.iter_mut().find(|node| node.output[0] == "scores").unwrap();
    scores.input[0] = "merged".to_owned();
    std::fs::write(&onnx, plansmith_onnx::encode(&model)).unwrap();

    let error = build(&onnx, &folder.path().join("engines/decode.plan")).unwrap_err().to_string();
    assert!(error.contains("drops inputs") && error.contains("Unused Input: position_ids"), "{error}");
    assert!(!folder.path().join("engines").exists());
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_damaged_plan_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("decode.plan");
    let manifest = build(&testdata("decoder.onnx"), &plan).unwrap().manifest;
    let whole = std::fs::read(&plan).unwrap();

    // One byte of the weights: only the hash tells.
    let mut bytes = whole.clone();
    bytes[1_000_000] ^= 0xff;
    std::fs::write(&plan, &bytes).unwrap();
    let error = check_plan(&plan).unwrap_err().to_string();
    assert!(error.contains("SHA-256: "), "{error}");

    // The section table, with a manifest that fits: TensorRT tells.
    let mut bytes = whole.clone();
    bytes[0x48] ^= 1;
    std::fs::write(&plan, &bytes).unwrap();
    let mut forged = manifest.clone();
    forged.plan.sha256 = plansmith_files::Digest::of(&bytes);
    forged.write(&manifest_path(&plan)).unwrap();
    let error = PlanSession::open(&paths(), std::slice::from_ref(&plan)).unwrap_err().to_string();
    assert!(error.contains("TensorRT refuses it") && error.contains("Serialization"), "{error}");

    // A manifest for other architectures than the header's.
    std::fs::write(&plan, &whole).unwrap();
    let mut other = manifest;
    other.architectures = vec![Architecture::Sm120];
    other.write(&manifest_path(&plan)).unwrap();
    let error = check_plan(&plan).unwrap_err().to_string();
    assert!(error.contains("architecture bits: 0xc in the plan, 0x10 in the manifest"), "{error}");
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_killed_worker_leaves_nothing_and_the_next_run_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("decode.plan");
    let worker = Worker::spawn(&paths()).unwrap();
    let pid = Pid::from_raw(worker.id() as i32).unwrap();
    let error = worker
        .build(&request(&testdata("decoder.onnx"), &plan), &mut |event| {
            if matches!(event, Event::PhaseStarted { phase, .. } if phase == "build") {
                kill_process(pid, Signal::KILL).unwrap();
            }
        })
        .unwrap_err();
    let Error::WorkerDied { status, .. } = &error else { panic!("{error}") };
    assert!(status.contains("signal: 9"), "{error}");
    assert!(names(folder.path()).is_empty());

    // What a worker left that was killed while it wrote.
    std::fs::write(folder.path().join(".plansmith-plan-1.partial"), "half").unwrap();
    build(&testdata("decoder.onnx"), &plan).unwrap();
    assert_eq!(names(folder.path()), ["decode.json", "decode.plan"]);
}

const INTO: &str = "PLANSMITH_TEST_BUILD_INTO";

/// Started by the next test as a process of its own; alone, it has nothing to do.
#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_client_that_stops_in_the_middle_of_a_build() {
    let Some(plan) = std::env::var_os(INTO) else { return };
    let worker = Worker::spawn(&paths()).unwrap();
    let pid = worker.id();
    let _ = worker.build(&request(&testdata("decoder.onnx"), Path::new(&plan)), &mut |event| {
        if matches!(event, Event::PhaseStarted { phase, .. } if phase == "build") {
            println!("\nworker {pid}");
            std::thread::sleep(Duration::from_secs(600));
        }
    });
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_worker_ends_with_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("decode.plan");
    let mut client = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "a_client_that_stops_in_the_middle_of_a_build"])
        .env(INTO, &plan)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let line = lines.map(Result::unwrap).find(|line| line.starts_with("worker ")).unwrap();
    let process = Path::new("/proc").join(line.trim_start_matches("worker "));
    assert!(process.join("exe").exists());
    client.kill().unwrap();
    client.wait().unwrap();
    let start = Instant::now();
    // An ended process that nobody has waited for has no `exe` any more.
    while process.join("exe").exists() {
        assert!(start.elapsed() < Duration::from_secs(20), "the worker is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!plan.exists() && !manifest_path(&plan).exists());
    build(&testdata("decoder.onnx"), &plan).unwrap();
    assert_eq!(names(folder.path()), ["decode.json", "decode.plan"]);
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn products_that_turing_lacks_are_refused_before_the_builder_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = decoder_in(folder.path(), "model");
    let mut model = plansmith_onnx::load(&onnx).unwrap();
    // The last products in fp32; the builder says of them: FP32 GEMM is not supported.
    let nodes = &mut model.graph.as_mut().unwrap().node;
    let to_fp32 = nodes.iter().find(|node| node.output[0] == "logits").unwrap().clone();
    let scores = nodes.iter().position(|node| node.output[0] == "scores").unwrap();
    for input in 0..2 {
        let (mut cast, name) = (to_fp32.clone(), format!("wide_{input}"));
        cast.name = Some(name.clone());
        cast.input[0] = std::mem::replace(&mut nodes[scores + input].input[input], name.clone());
        cast.output[0] = name;
        nodes.insert(scores, cast);
    }
    std::fs::write(&onnx, plansmith_onnx::encode(&model)).unwrap();

    let mut request = request(&onnx, &folder.path().join("decode.plan"));
    request.architectures = vec![Architecture::Sm75];
    let error = Worker::spawn(&paths()).unwrap().build(&request, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("sm75 does not multiply matrices in F32 (first at `"), "{error}");
    assert!(error.hint().unwrap().contains("leave sm75 out"));
}
