//! `plansmith engine`.

use std::path::Path;
use std::time::Duration;

use plansmith_engine::{
    ArchitecturesAs, BuildReport, BuildRequest, Compatible, Event, Farm, FarmEvent, Flavor, Forecast, Job, Lookup, PlanCache, PlanParts,
    Preset, Profile, RandomisedAddresses, Reproducibility, TimingCache, TimingRecord, Weights, WorkerPaths, inspect_model, spread,
};
use serde_json::{Value, json};

use super::forecast;
use crate::args::{Engine, FarmFlags, Tools};
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{Output, human_bytes};
use crate::replace::outside_of_builds;

pub(crate) fn run(args: &Engine, output: &Output) -> Result<Outcome, Failure> {
    // A plan in there would be a file that the bundle's seal does not know, and gone with the next build.
    if !args.dry_run {
        outside_of_builds(args.output.as_deref().unwrap_or(Path::new(".")))?;
    }
    let flavor: Flavor = args.flavor.parse()?;
    let architectures = flavor.targets(&args.arch)?;
    let architectures_as = if architectures.is_empty() { ArchitecturesAs::OnePlan } else { args.arch_as };
    let weights: Weights = args.weights.parse()?;
    let compatible = args.compatible.iter().map(|name| name.parse()).collect::<Result<Vec<Compatible>, _>>()?;
    Compatible::check(&compatible, flavor)?;
    let timing_cache = args.timing_cache.as_deref().map_or(TimingCache::Usual, TimingCache::named);
    timing_cache.check(flavor)?;
    if plansmith_files::is_dir(&args.onnx) {
        return Err(no_graph(&args.onnx));
    }
    // What TensorRT cannot take is told without it.
    let lengths = inspect_model(&args.onnx)?.lengths;
    let profiles = args.profile.iter().map(|text| Preset::parse(text, &lengths)).collect::<Result<Vec<Profile>, _>>()?;
    let plans = spread(&architectures, architectures_as, &profiles, args.profiles_as)?;
    let requests: Vec<BuildRequest> = plans.into_iter().map(|parts| request(args, parts, weights, &compatible, &timing_cache)).collect();
    if args.dry_run {
        let forecasts = requests.iter().map(Forecast::of).collect::<Result<Vec<_>, _>>()?;
        return forecast::show(&requests, &forecasts, args.json, output);
    }
    let paths = WorkerPaths::find(flavor, &lookup(&args.tools))?;
    let jobs: Vec<Job> = requests.into_iter().map(|request| Job { paths: paths.clone(), request }).collect();
    let interrupt = Interrupt::new()?;
    let farm = Farm { fresh: args.force, ..farm(&args.farm, &interrupt) };
    // Before, graphs are hashed, which looks at no wish to stop.
    let mut hearing = None;
    let reports = farm.run(&jobs, &mut |event| match event {
        FarmEvent::Opens => hearing = Some(interrupt.heard()),
        FarmEvent::Closes => hearing = None,
        FarmEvent::Started(index, _) => output.note(format!("building {}", jobs[index].request.output.display())),
        other => show_farm(&other, output),
    });
    let reports = reports.map_err(|(_, error)| error)?;
    if args.prove_reproducible {
        reports.iter().filter_map(unproved).for_each(|note| output.note(note));
    }
    if args.json {
        output.json(&reports.iter().map(as_json).collect::<Vec<_>>())?;
    } else {
        reports.iter().try_for_each(|report| output.result(line(report)))?;
    }
    Ok(Outcome::Done)
}

/// A folder where a graph is wanted.
fn no_graph(folder: &Path) -> Failure {
    let shown = folder.display();
    let exported = format!("`plansmith export {shown} -o DIR --dtype fp16 --dialect tensorrt` writes one: DIR/model_fp16.onnx");
    let graphs = plansmith_files::list(folder).unwrap_or_default().into_iter();
    let graph = graphs.filter(|path| path.extension().is_some_and(|extension| extension == "onnx")).map(|path| path.display().to_string());
    let hint = match graph.reduce(|one, other| format!("{one} or {other}")) {
        Some(graphs) => format!("name one in it: {graphs}"),
        None if plansmith_files::is_file(&folder.join("config.json")) => exported,
        None => "name the .onnx file".to_owned(),
    };
    Failure::new(format!("{shown} is a folder; plans are built from an ONNX graph")).hint(hint)
}

fn request(args: &Engine, parts: PlanParts, weights: Weights, compatible: &[Compatible], timings: &TimingCache) -> BuildRequest {
    let plan = args.output.as_deref().unwrap_or(Path::new("")).join(parts.path());
    let PlanParts { architectures, profiles } = parts;
    BuildRequest {
        onnx: args.onnx.clone(),
        output: plan,
        profiles,
        profiles_as: args.profiles_as,
        architectures,
        source: None,
        weights,
        compatible: compatible.to_vec(),
        timing_cache: timings.clone(),
        prove_reproducible: args.prove_reproducible,
    }
}

/// How plans are built, by the flags.
pub(crate) fn farm(flags: &FarmFlags, interrupt: &Interrupt) -> Farm {
    let cache = match (&flags.cache, flags.no_cache) {
        (Some(folder), _) => Some(PlanCache::at(folder)),
        (None, true) => None,
        (None, false) => PlanCache::usual(),
    };
    let usual = Farm::usual();
    Farm {
        cache,
        jobs: flags.jobs.map_or(usual.jobs, usize::from),
        memory: flags.max_memory.unwrap_or(usual.memory),
        timeout: flags.timeout.map(Duration::from_secs),
        cancel: interrupt.cancel(),
        ..usual
    }
}

fn as_json(report: &BuildReport) -> Value {
    json!({
        "plan": report.plan.to_string_lossy(), "manifest": report.manifest_path.to_string_lossy(), "sha256": report.manifest.plan.sha256,
        "bytes": report.manifest.plan.bytes, "build_s": report.build.as_secs_f64(), "peak_bytes": report.peak_bytes,
        "weights": report.manifest.weights, "refit": report.manifest.refit.len(), "reproducible": report.manifest.reproducible, "warnings": report.manifest.warnings,
        "cached": report.cached, "cost": report.manifest.cost, "timing_cache": report.manifest.timing_cache,
    })
}

/// Why the bytes of a plan are not known to be those of every build.
fn unproved(report: &BuildReport) -> Option<String> {
    let plan = report.plan.display();
    match &report.manifest.reproducible {
        Reproducibility::Proved { .. } => None,
        Reproducibility::Differs { second, .. } => {
            Some(format!("{plan}: a second build gave other bytes, of SHA-256 {second}; the plan is not kept in the cache"))
        }
        Reproducibility::NotTried { randomised_addresses: RandomisedAddresses::On { reason } } => {
            Some(format!("{plan}: not built twice, as two builds differ where addresses stay randomised: {reason}"))
        }
        Reproducibility::NotTried { .. } => Some(format!("{plan}: not built twice")),
    }
}

fn line(report: &BuildReport) -> String {
    let (path, record) = (report.plan.display(), &report.manifest.plan);
    let proof = if report.manifest.is_proved() { ", and a second build gave the same bytes" } else { "" };
    let how = if report.cached { "from the cache".to_owned() } else { format!("built in {:.1} s", report.build.as_secs_f64()) };
    let cost = report.manifest.cost.map(|cost| format!(", {:.2} × the weights", cost.plan_permille_of_weights as f64 / 1000.0));
    format!("{path}: {}{}, sha256 {}, {how}{proof}", human_bytes(record.bytes), cost.unwrap_or_default(), record.sha256)
}

/// Flags on libraries as the engine takes them.
pub(crate) fn lookup(tools: &Tools) -> Lookup {
    Lookup { worker: tools.worker.clone(), libraries: tools.tensorrt_dir.clone() }
}

/// What happens in a farm, as loud as asked for.
pub(crate) fn show_farm(event: &FarmEvent<'_>, output: &Output) {
    match event {
        FarmEvent::Worker(_, event) => show(event, output),
        FarmEvent::Started(_, bytes) => output.detail(format!("a worker starts; about {} are expected", human_bytes(*bytes))),
        FarmEvent::Done(_, report) => {
            let timings = report.manifest.timing_cache.iter();
            let warnings = report.manifest.warnings.iter().map(|warning| format!("{}: {warning}", report.plan.display()));
            timings.flat_map(notes_on_timings).chain(warnings).for_each(|note| output.note(note));
        }
        FarmEvent::NotKept(_, error) => output.note(format!("the plan is built, and not kept in the cache: {error}")),
        FarmEvent::Opens | FarmEvent::Closes => {}
    }
}

/// What did not go as wished with a timing cache.
fn notes_on_timings(record: &TimingRecord) -> impl Iterator<Item = String> {
    let refused = record.refused.as_ref().map(|why| format!("everything is measured anew, since the timing cache was refused: {why}"));
    let not_kept = record.not_kept.as_ref().map(|why| format!("the plan is built, and its timings are not kept (--timing-cache): {why}"));
    refused.into_iter().chain(not_kept)
}

/// What a worker does and TensorRT's log, as loud as asked for.
pub(crate) fn show(event: &Event, output: &Output) {
    if let Some(line) = told(event) {
        output.detail(line);
    }
}

/// An event as people read it. Steps and ends of phases are for bars.
fn told(event: &Event) -> Option<String> {
    match event {
        Event::Log { severity, text } => Some(format!("{}: {text}", format!("{severity:?}").to_lowercase())),
        Event::PhaseStarted { phase, parent: Some(parent), .. } => Some(format!("{parent}: {phase}")),
        Event::PhaseStarted { phase, parent: None, .. } => Some(format!("{phase}: begins")),
        Event::PhaseAt { .. } | Event::PhaseEnded { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use plansmith_engine::{Event, Severity};

    use super::told;

    #[test]
    fn a_worker_is_followed_in_words() {
        let started = |phase: &str, parent: Option<&str>| {
            told(&Event::PhaseStarted { phase: phase.to_owned(), parent: parent.map(str::to_owned), steps: 3 }).unwrap()
        };
        assert_eq!(started("build", None), "build: begins");
        assert_eq!(started("Computing profile costs", Some("build")), "build: Computing profile costs");
        let log = Event::Log { severity: Severity::Warning, text: "a layer is slow".to_owned() };
        assert_eq!(told(&log).unwrap(), "warning: a layer is slow");
        assert_eq!(told(&Event::PhaseAt { phase: "build".to_owned(), done: 105 }), None);
    }
}
