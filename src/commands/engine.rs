//! `plansmith engine`.

use plansmith_engine::{
    Architecture, BuildRequest, Event, Flavor, Lookup, Profile, Worker, WorkerPaths, check_profile_names, inspect_model,
};
use serde_json::json;

use crate::args::{Engine, Tools};
use crate::exit::{Failure, Outcome};
use crate::output::{Output, human_bytes};

pub(crate) fn run(args: &Engine, output: &Output) -> Result<Outcome, Failure> {
    let flavor: Flavor = args.flavor.parse()?;
    let architectures = args.arch.iter().map(|name| name.parse()).collect::<Result<Vec<Architecture>, _>>()?;
    let profiles = args.profile.iter().map(|text| text.parse()).collect::<Result<Vec<Profile>, _>>()?;
    check_profile_names(&profiles)?;
    // What TensorRT cannot take is told without it.
    inspect_model(&args.onnx)?;
    let paths = WorkerPaths::find(flavor, &lookup(&args.tools))?;
    let mut built = Vec::new();
    for architecture in &architectures {
        for profile in &profiles {
            let plan = args.output.join(architecture.name()).join(format!("{}.plan", profile.name()));
            let mut request = BuildRequest::new(&args.onnx, &plan, profile.clone(), vec![*architecture]);
            request.prove_reproducible = args.prove_reproducible;
            output.note(format!("building {}", plan.display()));
            let report = Worker::spawn(&paths)?.build(&request, &mut |event| show(&event, output))?;
            let (bytes, seconds, peak) = (report.manifest.plan.bytes, report.build.as_secs_f64(), report.peak_bytes);
            if args.json {
                built.push(json!({
                    "plan": report.plan, "manifest": report.manifest_path, "sha256": report.manifest.plan.sha256,
                    "bytes": bytes, "build_s": seconds, "peak_bytes": peak, "reproducible": report.manifest.reproducible,
                }));
            } else {
                let (path, sha256) = (report.plan.display().to_string(), report.manifest.plan.sha256);
                output.result(format!("{path}: {}, sha256 {sha256}, built in {seconds:.1} s", human_bytes(bytes)))?;
            }
        }
    }
    if args.json {
        output.json(&built)?;
    }
    Ok(Outcome::Done)
}

/// Flags on libraries as the engine takes them.
pub(crate) fn lookup(tools: &Tools) -> Lookup {
    Lookup { worker: tools.worker.clone(), libraries: tools.tensorrt_dir.clone() }
}

/// TensorRT's log, as loud as asked for.
pub(crate) fn show(event: &Event, output: &Output) {
    output.detail(format!("{event:?}"));
}
