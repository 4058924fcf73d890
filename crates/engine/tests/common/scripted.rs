//! A worker of the enterprise flavour that is scripted: it greets with the GPU that it is told, and its plans are headers. What the client
//! makes of its answers is what is tested; what TensorRT does with timings is tested with TensorRT.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use plansmith_engine::protocol::{self, AlienTimings, BuildOrder, BuiltPlan, BuiltTimings, Failure, Greeting, Reply, Request};
use plansmith_engine::{
    BuilderSettings, FileRecord, Flavor, Gpu, LayerSummary, LibraryRecord, NotExecuted, RandomisedAddresses, TensorRecord, WorkerPaths,
    partial_name,
};
use plansmith_files::Digest;

/// The variable that makes a test program be the worker, with its GPU as JSON, or `null`.
pub(crate) const BE: &str = "PLANSMITH_TEST_SCRIPTED_WORKER";

/// What the scripted timings begin with.
pub(crate) const TIMINGS: &str = "timings of ";

/// A GPU of this name and compute capability.
pub(crate) fn gpu(name: &str, compute: &str) -> Gpu {
    Gpu {
        name: name.to_owned(),
        compute: compute.to_owned(),
        cuda: "13.0".to_owned(),
        driver: Some("580.65.06".to_owned()),
        memory: 8 << 30,
    }
}

/// A program in `folder` that is the worker on this GPU, and libraries for it; the test program must have a test called `scripted` that
/// calls [`serve`], and a function `program` of `program.rs`.
pub(crate) fn paths(folder: &Path, gpu: Option<&Gpu>) -> WorkerPaths {
    let worker = folder.join("scripted-worker");
    let program = std::env::current_exe().unwrap();
    let gpu = serde_json::to_string(&gpu).unwrap();
    let script = format!("#!/bin/sh\n{BE}='{gpu}' exec '{}' --exact scripted --nocapture --test-threads 1\n", program.display());
    super::program(&worker, &script);
    for name in Flavor::Enterprise.libraries() {
        std::fs::write(folder.join(name), name).unwrap();
    }
    WorkerPaths { flavor: Flavor::Enterprise, worker, libraries: folder.to_owned() }
}

/// Is the worker until the client closes, where the environment says so.
pub(crate) fn serve() {
    let Some(gpu) = std::env::var_os(BE) else { return };
    let gpu: Option<Gpu> = serde_json::from_str(gpu.to_str().unwrap()).unwrap();
    let mut stream = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    while let Some(request) = protocol::receive::<Request>(&mut stream).unwrap() {
        let reply = match request {
            Request::Hello { protocol, flavor } => {
                protocol::receive_descriptor(&stream).unwrap();
                let file = |name: &str| FileRecord { name: name.to_owned(), bytes: 1, sha256: Digest::of(name.as_bytes()) };
                let library =
                    LibraryRecord { version: "11.4.0.106".to_owned().try_into().unwrap(), core: file("core"), parser: file("parser") };
                let (plansmith, randomised_addresses) = ("0.1.0".to_owned(), RandomisedAddresses::Off);
                Reply::Hello(Greeting { protocol, flavor, plansmith, library, randomised_addresses, gpu: gpu.clone() })
            }
            Request::Build(order) => build(&stream, &order),
            Request::Open(_) => {
                protocol::receive_descriptor(&stream).unwrap();
                Reply::NotExecuted(NotExecuted { checked: Vec::new(), why: "it is scripted".to_owned() })
            }
            _ => panic!("{request:?}"),
        };
        protocol::send(&mut stream, &reply).unwrap();
    }
    std::process::exit(0);
}

/// Leaves a plan that is a header, and timings that count the builds that they know of.
fn build(stream: &UnixStream, order: &BuildOrder) -> Reply {
    let descriptor = || protocol::receive_descriptor(stream).unwrap();
    let (_model, folder) = (descriptor(), descriptor());
    let timings = match order.timings.map(|alien| timings(&File::from(descriptor()), alien)).transpose() {
        Ok(timings) => timings,
        Err(failure) => return Reply::Failed(failure),
    };
    let mut plan = vec![0; 96];
    plan[..4].copy_from_slice(b"ftrt");
    plan[24..28].copy_from_slice(&[11, 4, 0, 106]);
    let place = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&folder));
    let partial = Path::new(&place).join(partial_name(std::process::id()));
    std::fs::write(&partial, &plan).unwrap();
    let file = File::open(&partial).unwrap();
    assert!(plansmith_files::lock_partial(&file, &partial).unwrap());
    // Until this process ends.
    std::mem::forget(file);
    let tensor =
        |name: &str, shape: &[i64]| TensorRecord { name: name.to_owned(), dtype: plansmith_tensor::DType::F16, shape: shape.to_vec() };
    Reply::Built(BuiltPlan {
        bytes: plan.len() as u64,
        sha256: Digest::of(&plan),
        builder: BuilderSettings {
            strongly_typed: true,
            tf32: false,
            optimization_level: 3,
            workspace_bytes: 1,
            builder_flags: 0,
            parser_flags: 0,
        },
        inputs: vec![tensor("past_key_values.0.key", &[-1, 1, -1, 16])],
        outputs: vec![tensor("logits", &[-1, 1, 32])],
        cache: Vec::new(),
        refit: Vec::new(),
        timings,
        layers: LayerSummary::default(),
        warnings: Vec::new(),
        parse_ms: 1,
        build_ms: 1,
        peak_bytes: 1,
    })
}

fn timings(memory: &File, alien: AlienTimings) -> Result<BuiltTimings, Failure> {
    let mut known = vec![0; memory.metadata().unwrap().len() as usize];
    memory.read_exact_at(&mut known, 0).unwrap();
    let builds = String::from_utf8(known).unwrap();
    let count = if builds.is_empty() { Some(0) } else { builds.strip_prefix(TIMINGS).and_then(|count| count.parse::<u64>().ok()) };
    let reason = "they are of another GPU".to_owned();
    let refused = match (count, alien) {
        (Some(_), _) => None,
        (None, AlienTimings::Replace) => Some(reason),
        (None, AlienTimings::Refuse) => return Err(Failure::Timings { reason, log: vec!["not used".to_owned()] }),
    };
    let left = format!("{TIMINGS}{}", count.unwrap_or(0) + 1);
    memory.set_len(0).unwrap();
    memory.write_all_at(left.as_bytes(), 0).unwrap();
    Ok(BuiltTimings { refused, bytes: left.len() as u64, sha256: Digest::of(left.as_bytes()) })
}
