//! Timing caches on their way to a worker and back.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod common;

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::process::Command;

use common::{paths, testdata};
use plansmith_engine::protocol::{self, AlienTimings, BuiltPlan, BuiltTimings, Failure, Reply, Request};
use plansmith_engine::{Architecture, BuildRequest, Flavor, Models, Prepared};
use plansmith_files::Digest;

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
