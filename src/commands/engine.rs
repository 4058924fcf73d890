//! `plansmith engine`.

use plansmith_engine::{
    Architecture, BuildRequest, Compatible, Error, Event, Flavor, Lookup, Profile, Weights, Worker, WorkerPaths, check_profile_names,
    inspect_model,
};
use serde_json::json;

use crate::args::{Engine, Tools};
use crate::exit::{Failure, Outcome};
use crate::output::{Output, human_bytes};

pub(crate) fn run(args: &Engine, output: &Output) -> Result<Outcome, Failure> {
    let flavor: Flavor = args.flavor.parse()?;
    let architectures = targets(flavor, &args.arch)?;
    let profiles = args.profile.iter().map(|text| text.parse()).collect::<Result<Vec<Profile>, _>>()?;
    check_profile_names(&profiles)?;
    let weights: Weights = args.weights.parse()?;
    let compatible = args.compatible.iter().map(|name| name.parse()).collect::<Result<Vec<Compatible>, _>>()?;
    // What TensorRT cannot take is told without it.
    inspect_model(&args.onnx)?;
    let paths = WorkerPaths::find(flavor, &lookup(&args.tools))?;
    let mut built = Vec::new();
    for target in &architectures {
        for profile in &profiles {
            let plan = args.output.join(target.map_or(NATIVE, Architecture::name)).join(format!("{}.plan", profile.name()));
            let mut request = BuildRequest::new(&args.onnx, &plan, profile.clone(), target.iter().copied().collect());
            request.weights = weights;
            request.compatible.clone_from(&compatible);
            request.prove_reproducible = args.prove_reproducible;
            output.note(format!("building {}", plan.display()));
            let report = Worker::spawn(&paths)?.build(&request, &mut |event| show(&event, output))?;
            let (bytes, seconds, peak) = (report.manifest.plan.bytes, report.build.as_secs_f64(), report.peak_bytes);
            if args.json {
                built.push(json!({
                    "weights": weights, "refit": report.manifest.refit.len(),
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

/// The GPU of the machine that builds, which is what the enterprise flavour builds for.
const NATIVE: &str = "native";

/// What to build for; `None` is the machine's own GPU.
fn targets(flavor: Flavor, names: &[String]) -> Result<Vec<Option<Architecture>>, Error> {
    match (flavor, names) {
        (Flavor::Enterprise, [name]) if name == NATIVE => Ok(vec![None]),
        (Flavor::Enterprise, _) => Err(Error::ArchitecturesOfEnterprise),
        (Flavor::Rtx, names) => names.iter().map(|name| name.parse().map(Some)).collect(),
    }
}

/// Flags on libraries as the engine takes them.
pub(crate) fn lookup(tools: &Tools) -> Lookup {
    Lookup { worker: tools.worker.clone(), libraries: tools.tensorrt_dir.clone() }
}

/// TensorRT's log, as loud as asked for.
pub(crate) fn show(event: &Event, output: &Output) {
    output.detail(format!("{event:?}"));
}
