//! Workers that crash, hang or run out of something, and plans and libraries that are not what they should be: each really made.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{behind, names, paths, program, testdata};
use plansmith_engine::{
    Architecture, BuildReport, BuildRequest, Error, Event, Flavor, Limits, Models, PlanSession, Prepared, RandomisedAddresses,
    Reproducibility, Worker, WorkerPaths, check_plan,
};
use rustix::process::{Pid, Signal, kill_process};

fn request(plan: &Path) -> BuildRequest {
    BuildRequest::new(
        testdata("decoder.onnx"),
        plan,
        "decode:batch=1,sequence=1..4..16,past=0..8..32".parse().unwrap(),
        vec![Architecture::Sm89],
    )
}

fn build(paths: &WorkerPaths, plan: &Path) -> Result<BuildReport, Error> {
    Worker::spawn(paths)?.build(&request(plan), &mut |_| {})
}

/// Compiles C, which whoever compiled the worker can.
fn compile(source: &str, output: &Path, flags: &[&str]) {
    let file = output.with_extension("c");
    std::fs::write(&file, source).unwrap();
    assert!(Command::new("cc").args(flags).arg("-o").arg(output).arg(&file).status().unwrap().success());
}

/// Sends `signal` to the worker when it builds, and says what came of it. Where the machine is busy the plan may be done before we hear that
/// it is begun: then once more.
fn signalled(signal: Signal, limits: &Limits, plan: &Path) -> (Error, Pid) {
    for _ in 0..20 {
        let worker = Worker::spawn(&paths()).unwrap();
        let pid = Pid::from_raw(i32::try_from(worker.id()).unwrap()).unwrap();
        let request = request(plan);
        let prepared = Prepared::of(&request, &mut Models::default()).unwrap();
        let built = worker.build_prepared(&request, prepared, limits, &mut |event| {
            if matches!(event, Event::PhaseStarted { phase, .. } if phase == "build") {
                kill_process(pid, signal).unwrap();
            }
        });
        match built {
            Err(error) => return (error, pid),
            Ok(report) => [report.plan, report.manifest_path].iter().for_each(|path| std::fs::remove_file(path).unwrap()),
        }
    }
    panic!("every worker was done before it was signalled");
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_crash_names_its_signal() {
    let folder = tempfile::tempdir().unwrap();
    let (error, _) = signalled(Signal::ABORT, &Limits::default(), &folder.path().join("decode.plan"));
    let Error::WorkerDied { status, doing, .. } = &error else { panic!("{error}") };
    assert!(status.contains("signal: 6") && doing.contains("decoder.onnx"), "{error}");
    assert!(names(folder.path()).is_empty());
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_worker_that_hangs_is_ended_when_its_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("decode.plan");
    let start = Instant::now();
    let limits = Limits { timeout: Some(Duration::from_secs(3)), ..Limits::default() };
    let (error, pid) = signalled(Signal::STOP, &limits, &plan);
    assert!(matches!(error, Error::TimedOut { limit, .. } if limit == Duration::from_secs(3)), "{error}");
    assert!(error.to_string().contains("longer than 3 s") && error.hint().unwrap().contains("--timeout"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(60));
    assert!(!Path::new(&format!("/proc/{}", pid.as_raw_nonzero())).exists(), "the worker is gone");
    assert!(names(folder.path()).is_empty());
    // Without a limit of its time, it is seen to do nothing.
    let limits = Limits { idle: Duration::from_secs(2), ..Limits::default() };
    let (error, _) = signalled(Signal::STOP, &limits, &plan);
    assert!(matches!(error, Error::Idle { limit, .. } if limit == Duration::from_secs(2)), "{error}");
    assert!(names(folder.path()).is_empty());
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn memory_that_runs_out_is_one_error() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    // From too little to load the libraries to too little to build: it fails, or dies of it.
    let mut failures = Vec::new();
    for kib in [250_000, 350_000, 400_000, 450_000, 500_000] {
        let limited = behind(folder.path(), &format!("ulimit -v {kib}"));
        let limits = Limits { idle: Duration::from_secs(5), ..Limits::default() };
        let request = request(&out.join("decode.plan"));
        let prepared = Prepared::of(&request, &mut Models::default()).unwrap();
        let built = Worker::spawn(&limited).and_then(|worker| worker.build_prepared(&request, prepared, &limits, &mut |_| {}));
        if let Err(error) = built {
            // It says so, dies of it, or waits for itself for ever.
            assert!(matches!(error, Error::WorkerDied { .. } | Error::Worker { .. } | Error::Idle { .. }), "{error}");
            failures.push(error.to_string());
        }
    }
    assert!(!failures.is_empty());
    assert!(!out.join("decode.json").exists() || out.join("decode.plan").exists(), "{failures:?}");
    assert!(!out.exists() || names(&out).iter().all(|name| !name.ends_with(".partial")));
    build(&paths(), &out.join("decode.plan")).unwrap();
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_disk_that_is_full_is_named_and_holds_nothing_of_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("small disk");
    std::fs::create_dir(&out).unwrap();
    // No file may become larger than a megabyte; a write beyond fails, as on a full disk.
    let limited = behind(folder.path(), "trap '' XFSZ\nulimit -f 1024");
    let error = build(&limited, &out.join("decode.plan")).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("the plan cannot be written") && text.contains("small disk") && text.contains("File too large"), "{text}");
    assert_eq!(names(&out), Vec::<String>::new());
}

const INTO: &str = "PLANSMITH_TEST_FULL_DISK";

/// Started by the next test in a namespace where a small file system is mounted; alone, it has nothing to do.
#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_client_with_a_small_disk() {
    let Some(out) = std::env::var_os(INTO).map(PathBuf::from) else { return };
    let error = build(&paths(), &out.join("decode.plan")).unwrap_err();
    println!("\nsaid: {}", error.to_string().replace('\n', " "));
    println!("left: {:?}", names(&out));
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_full_tmpfs_is_named_and_holds_nothing_of_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let (out, test) = (folder.path().join("disk"), std::env::current_exe().unwrap());
    std::fs::create_dir(&out).unwrap();
    let script = "mount -t tmpfs -o size=1m none \"$0\" && exec \"$1\" --ignored --exact --nocapture a_client_with_a_small_disk";
    let mut child = Command::new("unshare");
    child.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(&out).arg(test);
    let output = child.env(INTO, &out).output().unwrap();
    let (said, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() && said.is_empty() {
        // Where namespaces are refused, the test above has filled a disk by its limit.
        println!("no namespace of our own: {complaint}");
        return;
    }
    assert!(said.contains("the plan cannot be written") && said.contains("No space left on device"), "{said}{complaint}");
    assert!(said.contains("left: []"), "{said}");
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn plans_that_are_cut_short_or_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("decode.plan");
    build(&paths(), &plan).unwrap();
    let whole = std::fs::read(&plan).unwrap();
    let refusal = |bytes: &[u8]| {
        std::fs::write(&plan, bytes).unwrap();
        let session = PlanSession::open(&paths(), std::slice::from_ref(&plan)).unwrap_err().to_string();
        assert_eq!(session, check_plan(&plan).unwrap_err().to_string());
        session
    };
    let cut = refusal(&whole[..whole.len() - 1]);
    assert!(cut.contains(&format!("size in bytes: {} in the plan, {} in the manifest", whole.len() - 1, whole.len())), "{cut}");
    // As large as it should be, and something else: a graph, filled up.
    let mut alien = std::fs::read(testdata("decoder.onnx")).unwrap();
    alien.resize(whole.len(), 0);
    let alien = refusal(&alien);
    assert!(alien.contains("is not a whole TensorRT plan: starts with"), "{alien}");
    // A header that says another version: 1.6.
    let mut old = whole.clone();
    old[25] = 6;
    let old = refusal(&old);
    assert!(old.contains("TensorRT version: 1.6.1.116 in the plan, 1.7.1.116 in the manifest"), "{old}");
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn libraries_of_another_version_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let source = "int getInferLibVersion(void) { return 10602; }\nint getInferLibBuildVersion(void) { return 9; }\n";
    compile(source, &folder.path().join(Flavor::Rtx.libraries()[0]), &["-shared", "-fPIC"]);
    std::fs::copy(paths().libraries.join(Flavor::Rtx.libraries()[1]), folder.path().join(Flavor::Rtx.libraries()[1])).unwrap();
    let foreign = WorkerPaths { libraries: folder.path().to_owned(), ..paths() };
    let error = Worker::spawn(&foreign).unwrap_err().to_string();
    assert!(error.contains("TensorRT-RTX 1.6.2 was found; this worker was compiled for 1.7.1"), "{error}");
    assert!(error.contains(&folder.path().display().to_string()), "{error}");
}

/// Refuses personality(2) to whatever it executes, as containers do by default.
const REFUSE_PERSONALITY: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_personality, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof code[0], code };
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 9;
    execv(argv[1], argv + 1);
    return 8;
}
"#;

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn where_addresses_stay_randomised_the_plan_is_built_and_the_manifest_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let refuse = folder.path().join("refuse");
    compile(REFUSE_PERSONALITY, &refuse, &[]);
    let real = paths().worker;
    let script = folder.path().join("worker");
    program(&script, &format!("#!/bin/sh\nexec '{}' '{}'\n", refuse.display(), real.display()));
    let worker = Worker::spawn(&WorkerPaths { worker: script, ..paths() }).unwrap();
    let plan = folder.path().join("plans/decode.plan");
    let mut proving = request(&plan);
    proving.prove_reproducible = true;
    let manifest = worker.build(&proving, &mut |_| {}).unwrap().manifest;
    let Reproducibility::NotTried { randomised_addresses: RandomisedAddresses::On { reason } } = &manifest.reproducible else {
        panic!("{:?}", manifest.reproducible)
    };
    assert!(reason.contains("personality") && reason.contains("Operation not permitted"), "{reason}");
    check_plan(&plan).unwrap();
}
