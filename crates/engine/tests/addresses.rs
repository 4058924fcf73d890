//! What surrounds a worker and must not show in the bytes of its plans.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{behind, decoder_in, paths};
use plansmith_engine::{Architecture, BuildRequest, PlanManifest, RandomisedAddresses, Reproducibility, Weights, Worker, WorkerPaths};

fn build(paths: &WorkerPaths, onnx: &Path, plan: &Path) -> PlanManifest {
    let profile = "decode:batch=1..2..8,sequence=1..4..16,past=0..8..32".parse().unwrap();
    let mut request = BuildRequest::new(onnx, plan, profile, vec![Architecture::Sm86]);
    request.weights = Weights::Stripped;
    Worker::spawn(paths).unwrap().build(&request, &mut |_| {}).unwrap().manifest
}

/// Whether this system lets addresses be fixed; where it does not, nothing is claimed that could be tested.
#[expect(clippy::print_stdout, reason = "a test that proves nothing says so")]
fn fixed() -> bool {
    let state = Worker::spawn(&paths()).unwrap().greeting().randomised_addresses.clone();
    state == RandomisedAddresses::Off || {
        println!("addresses cannot be fixed here: {state:?}");
        false
    }
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn what_a_shell_was_told_does_not_change_a_plan() {
    if !fixed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let onnx = decoder_in(folder.path(), "model");
    let plain = build(&paths(), &onnx, &folder.path().join("plain/decode.plan")).plan.sha256;
    let mut others = Vec::new();
    for (name, first) in [
        ("no limit of the stack", "ulimit -S -s unlimited"),
        ("a large stack", "ulimit -S -s 1048576"),
        ("small stacks", "ulimit -S -s 1024"),
        ("the old layout", "[ \"$AGAIN\" ] || AGAIN=1 exec setarch -L \"$0\""),
        ("open files", "exec 3</dev/null 4</dev/null 5</dev/null 6</dev/null 7</dev/null 8</dev/null 9</dev/null"),
    ] {
        let own = folder.path().join(name);
        std::fs::create_dir(&own).unwrap();
        let manifest = build(&behind(&own, first), &onnx, &own.join("plans/decode.plan"));
        assert_eq!(manifest.reproducible, Reproducibility::NotTried { randomised_addresses: RandomisedAddresses::Off }, "{name}");
        if manifest.plan.sha256 != plain {
            others.push(name);
        }
    }
    assert!(others.is_empty(), "other bytes with {others:?}");
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn how_long_the_way_to_a_model_is_does_not_change_a_plan() {
    if !fixed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let digest = |way: &str, name: &str| build(&paths(), &decoder_in(folder.path(), way), &folder.path().join(name)).plan.sha256;
    let long = vec!["a folder with a long name, ".repeat(8); 7].join("/");
    assert_eq!(digest("model", "1/decode.plan"), digest(&long, "2/decode.plan"));
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn where_the_stack_may_not_be_as_large_as_usual_the_manifest_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = decoder_in(folder.path(), "model");
    let manifest = build(&behind(folder.path(), "ulimit -s 4096"), &onnx, &folder.path().join("plans/decode.plan"));
    let Reproducibility::NotTried { randomised_addresses: RandomisedAddresses::On { reason } } = &manifest.reproducible else {
        panic!("{:?}", manifest.reproducible)
    };
    assert!(!fixed() || reason.contains("the stack may not become larger than 4096 KiB"), "{reason}");
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_worker_has_an_environment_of_its_own() {
    if !fixed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let first = "export TZ=Asia/Tokyo LANG=de_DE.UTF-8 LD_PRELOAD= MALLOC_ARENA_MAX=1 GLIBC_TUNABLES=glibc.malloc.tcache_count=0";
    let worker = Worker::spawn(&behind(folder.path(), first)).unwrap();
    let environment = std::fs::read_to_string(format!("/proc/{}/environ", worker.id())).unwrap();
    let (names, values): (BTreeSet<_>, Vec<_>) = environment.split_terminator('\0').filter_map(|entry| entry.split_once('=')).unzip();
    let kept = ["LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "TMPDIR", "HOME", "RUST_BACKTRACE"];
    let own: Vec<_> = names.into_iter().filter(|name| !kept.contains(name)).collect();
    assert_eq!(own, ["PLANSMITH_WORKER_REEXECUTED", "TZ"]);
    assert!(values.contains(&"UTC0"), "{environment:?}");
}

const INTO: &str = "PLANSMITH_TEST_OTHER_MACHINE";

/// Started by the next test in a namespace with files of another machine; alone, it has nothing to do.
#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_client_on_another_machine() {
    let Some(folder) = std::env::var_os(INTO).map(PathBuf::from) else { return };
    let manifest = build(&paths(), &folder.join("model/decoder.onnx"), &folder.join("other/decode.plan"));
    println!("\nbuilt: {}", manifest.plan.sha256);
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn how_many_processors_there_are_and_their_zone_do_not_change_a_plan() {
    if !fixed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plain = build(&paths(), &decoder_in(folder.path(), "model"), &folder.path().join("plain/decode.plan")).plan.sha256;
    for (place, text) in [("/sys/devices/system/cpu/online", "0-63\n"), ("/etc/localtime", "")] {
        let other = folder.path().join("other file");
        std::fs::write(&other, text).unwrap();
        let script = "mount --bind \"$0\" \"$1\" && exec \"$2\" --ignored --exact --nocapture a_client_on_another_machine";
        let mut child = Command::new("unshare");
        child.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(other).arg(place);
        let output = child.arg(std::env::current_exe().unwrap()).env(INTO, folder.path()).output().unwrap();
        let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() && said.is_empty() {
            println!("no namespace of our own, or no {place}: {complaint}");
            continue;
        }
        assert!(said.contains(&format!("built: {plain}")), "{plain} without another {place}; {said}{complaint}");
    }
}
