//! Timing caches on their way to a worker and back.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;
#[path = "common/scripted.rs"]
mod scripted_worker;

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use common::{names, paths, program, testdata};
use plansmith_engine::protocol::{self, AlienTimings, BuiltPlan, BuiltTimings, Failure, Reply, Request};
use plansmith_engine::{
    Architecture, BuildHost, BuildRequest, Error, Farm, FarmEvent, Flavor, Job, Models, Prepared, TimingCache, TimingRecord, Worker,
    WorkerPaths,
};
use plansmith_files::Digest;
use scripted_worker::gpu;

/// The worker that the tests below start.
#[test]
fn scripted() {
    scripted_worker::serve();
}

fn request(folder: &Path, name: &str, timing_cache: TimingCache) -> BuildRequest {
    let profile = format!("{name}:batch=1,sequence=1..4..16,past=0..8..32").parse().unwrap();
    let request = BuildRequest::new(testdata("decoder.onnx"), folder.join(name).with_extension("plan"), profile, Vec::new());
    BuildRequest { timing_cache, ..request }
}

fn record(read: Option<&str>, written: &str) -> Option<TimingRecord> {
    let digest = |text: &str| Digest::of(text.as_bytes());
    Some(TimingRecord { read: read.map(digest), written: digest(written), refused: None, not_kept: None })
}

#[test]
fn what_a_build_measured_is_what_the_next_begins_with() {
    let folder = tempfile::tempdir().unwrap();
    let paths = scripted_worker::paths(folder.path(), Some(&gpu("NVIDIA H200", "9.0")));
    let file = folder.path().join("new folder/h200.timings");
    let build = |prove_reproducible| {
        let request = BuildRequest { prove_reproducible, ..request(folder.path(), "decode", TimingCache::File(file.clone())) };
        Worker::spawn(&paths).unwrap().build(&request, &mut |_| {}).unwrap().manifest
    };
    let first = build(false);
    assert_eq!(first.timing_cache, record(None, "timings of 1"));
    assert_eq!(first.host, BuildHost::Gpu(gpu("NVIDIA H200", "9.0")));
    assert_eq!(build(false).timing_cache, record(Some("timings of 1"), "timings of 2"));
    // The second build of a proof adds nothing.
    assert_eq!(build(true).timing_cache, record(Some("timings of 2"), "timings of 3"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "timings of 3");
    assert_eq!(names(file.parent().unwrap()), ["h200.timings"]);
    let off = request(folder.path(), "decode", TimingCache::Off);
    assert_eq!(Worker::spawn(&paths).unwrap().build(&off, &mut |_| {}).unwrap().manifest.timing_cache, None);
}

#[test]
fn timings_that_somebody_named_and_that_are_none_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let paths = scripted_worker::paths(folder.path(), Some(&gpu("NVIDIA H200", "9.0")));
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "dear diary").unwrap();
    let refused = |paths: &WorkerPaths, path: &Path| {
        let request = request(&folder.path().join("out"), "decode", TimingCache::File(path.to_owned()));
        Worker::spawn(paths).unwrap().build(&request, &mut |_| {}).unwrap_err()
    };
    let error = refused(&paths, &file);
    assert!(matches!(&error, Error::TimingCache { path, .. } if *path == file), "{error}");
    assert!(error.to_string().ends_with("notes.txt`: they are of another GPU\n  not used"), "{error}");
    assert!(error.hint().unwrap().contains("name another"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "dear diary");
    assert!(names(&folder.path().join("out")).is_empty());
    assert!(refused(&paths, folder.path()).to_string().ends_with("is no file"));
    // Told before anything is measured.
    let error = refused(&paths, Path::new("/proc/timings"));
    assert!(matches!(error, Error::File(_)) && error.to_string().contains("/proc/timings"), "{error}");
    let rtx = TimingCache::File(file.clone()).check(Flavor::Rtx).unwrap_err();
    assert!(rtx.to_string().contains("measures nothing") && rtx.hint().unwrap().contains("enterprise"), "{rtx}");
    assert!(TimingCache::named(Path::new("off")).check(Flavor::Rtx).is_ok());
}

#[test]
fn builders_that_measure_do_so_one_after_another() {
    let folder = tempfile::tempdir().unwrap();
    let paths = scripted_worker::paths(folder.path(), Some(&gpu("NVIDIA H200", "9.0")));
    let file = folder.path().join("h200.timings");
    let job = |name| Job { paths: paths.clone(), request: request(folder.path(), name, TimingCache::File(file.clone())) };
    let (mut running, mut most) = (0, 0);
    let reports = Farm { jobs: 3, ..Farm::usual() }.run(&["a", "b", "c"].map(job), &mut |event| match event {
        FarmEvent::Started(..) => {
            running += 1;
            most = most.max(running);
        }
        FarmEvent::Done(..) => running -= 1,
        _ => {}
    });
    assert_eq!((reports.unwrap().last().unwrap().manifest.timing_cache.clone(), most), (record(Some("timings of 2"), "timings of 3"), 1));
}

/// Asks the worker for a plan with these timings in the memory file; gives its answer and what is in the file then.
///
/// The library of the rtx flavour keeps timings as that of the other one does, though it has none to keep: what the worker asks of it is
/// answered without a GPU.
fn with_timings(given: &[u8], alien: AlienTimings) -> (Result<BuiltPlan, Failure>, Vec<u8>) {
    let (folder, paths) = (tempfile::tempdir().unwrap(), paths());
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut worker = Command::new(&paths.worker).stdin(OwnedFd::from(theirs)).spawn().unwrap();
    protocol::send(&mut ours, &Request::Hello { protocol: protocol::VERSION, flavor: Flavor::Rtx }).unwrap();
    protocol::send_descriptor(&ours, File::open(&paths.libraries).unwrap().as_fd()).unwrap();
    assert!(matches!(protocol::receive(&mut ours).unwrap(), Some(Reply::Hello(_))));
    let profile = "decode:batch=1,sequence=1..4..16,past=0..8..32".parse().unwrap();
    let request = BuildRequest::new(testdata("decoder.onnx"), folder.path().join("decode.plan"), profile, vec![Architecture::Sm89]);
    let mut order = Prepared::of(&request, &mut Models::default()).unwrap().order().clone();
    order.timings = Some(alien);
    let mut memory = tempfile::tempfile().unwrap();
    memory.write_all_at(given, 0).unwrap();
    protocol::send(&mut ours, &Request::Build(order)).unwrap();
    for file in [&File::open(testdata("")).unwrap(), &File::open(folder.path()).unwrap(), &memory] {
        protocol::send_descriptor(&ours, file.as_fd()).unwrap();
    }
    let answer = loop {
        match protocol::receive(&mut ours).unwrap() {
            Some(Reply::Event(_)) => {}
            Some(Reply::Built(built)) => break Ok(built),
            Some(Reply::Failed(failure)) => break Err(failure),
            other => panic!("{other:?}"),
        }
    };
    drop(ours);
    worker.wait().unwrap();
    let mut left = Vec::new();
    memory.read_to_end(&mut left).unwrap();
    (answer, left)
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn the_library_gives_its_timings_and_takes_no_others() {
    let (built, first) = with_timings(b"", AlienTimings::Refuse);
    let built = built.unwrap();
    let (bytes, sha256) = (first.len() as u64, Digest::of(&first));
    assert_eq!(built.timings, Some(BuiltTimings { refused: None, bytes, sha256 }));
    assert!(built.warnings.iter().all(|line| !line.contains("timing cache")), "{:?}", built.warnings);
    // As a plan begins with `vtrt` or `ftrt`; even a cache without entries has a header.
    assert!(first.starts_with(b"ptrt") && first.len() > 100, "{first:?}");

    for alien in [b"no timings".as_slice(), &first[..first.len() / 2]] {
        let (refused, left) = with_timings(alien, AlienTimings::Refuse);
        let Err(Failure::Timings { reason, log }) = refused else { panic!("{refused:?}") };
        assert!(reason.contains("this GPU and library") && log.iter().any(|line| line.contains("timing cache")), "{reason} {log:?}");
        assert_eq!(left, alien, "what is there stays");
        let (built, left) = with_timings(alien, AlienTimings::Replace);
        let timings = built.unwrap().timings.unwrap();
        assert!(timings.refused.is_some_and(|why| why.contains("this GPU and library; ")) && left == first);
    }
}
