//! `plansmith build`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plansmith_engine::{Event as WorkerEvent, FarmEvent, Severity};
use plansmith_pipeline::{Asked, BuildOptions, Built, Event, Finished, PARTS, Progress, SOURCE, VERIFY, build, cells, plan};
use plansmith_verify::{Prompts, Verdict};
use serde_json::json;

use super::engine::{lookup, show_farm};
use super::verify::{not_executed, open_options, prompts};
use crate::args::{Build, FarmFlags, Merge, PipelineFlags};
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::{Candidate, Ended, Event as Told, Meter};
use crate::stamp;

pub(crate) fn run(args: &Build, output: &Output) -> Result<Outcome, Failure> {
    let Build { pipeline, plan_only, stage, only, emit, force, farm } = args;
    let which = Which { stage: stage.as_deref(), only, parts: None, force: *force };
    with_options(pipeline, farm, which, |options, interrupt| {
        let file = &pipeline.pipeline;
        if let Some(system) = *emit {
            let name = file.display().to_string();
            let asked = Asked { pipeline: &name, overrides: &pipeline.set, require_executed: pipeline.require_executed };
            output.write(&cells(file, options)?.write(system, asked)?)?;
            return Ok(Outcome::Done);
        }
        if !plan_only {
            return execute("build", pipeline, options, interrupt, output);
        }
        let stages = plan(file, options)?;
        if pipeline.json {
            output.json(&stages)?;
            return Ok(Outcome::Done);
        }
        for stage in stages {
            output.result(format!("{:<6} {}", if stage.cached { "cached" } else { "run" }, stage.name))?;
        }
        Ok(Outcome::Done)
    })
}

/// `plansmith merge`: a build that has nothing left to do but to verify.
pub(crate) fn merge(args: &Merge, output: &Output) -> Result<Outcome, Failure> {
    let farm = FarmFlags { no_cache: true, ..FarmFlags::default() };
    let which = Which { parts: Some(&args.parts), ..Which::default() };
    with_options(&args.pipeline, &farm, which, |options, interrupt| execute("merge", &args.pipeline, options, interrupt, output))
}

/// What of a pipeline is to run.
#[derive(Default)]
struct Which<'a> {
    stage: Option<&'a str>,
    only: &'a [String],
    parts: Option<&'a [PathBuf]>,
    force: bool,
}

fn with_options(
    pipeline: &PipelineFlags,
    farm: &FarmFlags,
    which: Which<'_>,
    work: impl FnOnce(&BuildOptions<'_>, &Interrupt) -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    let (open, lookup) = (open_options(&pipeline.tools), lookup(&pipeline.tools));
    let read_prompts = |source: &plansmith_lowering::Source, file: &Path| -> Result<Prompts, String> {
        prompts(source, Some(file), None).map(|(prompts, _)| prompts).map_err(|failure| failure.line())
    };
    let interrupt = Interrupt::new()?;
    let farm = super::engine::farm(farm, &interrupt);
    let options = BuildOptions {
        overrides: &pipeline.set,
        stage: which.stage,
        only: which.only,
        parts: which.parts,
        force: which.force,
        require_executed: pipeline.require_executed,
        version: stamp::LONG,
        open: &open,
        lookup: &lookup,
        farm: &farm,
        read_prompts: &read_prompts,
    };
    work(&options, &interrupt)
}

fn execute(
    verb: &str,
    pipeline: &PipelineFlags,
    options: &BuildOptions<'_>,
    interrupt: &Interrupt,
    output: &Output,
) -> Result<Outcome, Failure> {
    output.event(&Told::Start { verb, version: stamp::LONG, pipeline: &pipeline.pipeline });
    let meter = Meter::new(output);
    let mut hearing = None;
    let built = build(&pipeline.pipeline, options, &mut |event| {
        match event {
            Event::Farm(_, FarmEvent::Opens) => hearing = Some(interrupt.heard()),
            Event::Farm(_, FarmEvent::Closes) => hearing = None,
            _ => {}
        }
        report(&event, &meter);
    })?;
    drop(meter);
    conclude(&built, pipeline, options.only.is_empty(), output)
}

fn report(event: &Event<'_>, meter: &Meter) {
    match event {
        Event::Stages(stages) => meter.stages(stages),
        Event::Begin(name) => {
            meter.begin(name);
            meter.aside(|output| output.detail(format!("{name}: begins")));
        }
        Event::Bytes(name, done, total) => meter.bytes(name, *done, *total),
        Event::Check(Progress { what, check, set }) => {
            meter.doing(VERIFY, format!("{what}: {check}"));
            meter.aside(|output| {
                output.event(&Told::Check { stage: VERIFY, what, check: *check, set });
                output.detail(format!("verify: {what}: {check} of {set}"));
            });
        }
        Event::Farm(stage, event) => {
            if let Some(stage) = stage {
                follow_plan(stage, event, meter);
            }
            meter.aside(|output| show_farm(event, output));
        }
        Event::End(name, time, taken_over) => {
            let is_stage = ![SOURCE, PARTS].contains(name);
            let how = if *taken_over { Ended::TakenOver } else { Ended::Done };
            meter.end(name, how, *time, is_stage);
            // What comes before the stages is worth a line where it took a while.
            if is_stage || *time >= Duration::from_secs(1) {
                let how = if *taken_over { "unchanged, taken over".to_owned() } else { format!("{:.1} s", time.as_secs_f64()) };
                meter.aside(|output| output.say(format!("{name:<32} {how}")));
            }
        }
    }
}

/// What a worker does, for the bar and the event stream.
fn follow_plan(stage: &str, event: &FarmEvent<'_>, meter: &Meter) {
    let told = match event {
        FarmEvent::Started(_, estimate) => Told::Worker { stage, estimate_bytes: *estimate },
        FarmEvent::Worker(_, WorkerEvent::PhaseStarted { phase, parent, steps }) => {
            let more = if *steps > 1 { format!(" ({steps} steps)") } else { String::new() };
            meter.doing(stage, format!("{phase}{more}"));
            if parent.is_some() {
                return;
            }
            Told::Phase { stage, phase }
        }
        FarmEvent::Worker(_, WorkerEvent::Log { severity, text }) if *severity <= Severity::Warning => {
            Told::Log { stage, severity: format!("{severity:?}").to_lowercase(), text }
        }
        FarmEvent::Done(_, report) => Told::Plan {
            stage,
            path: &report.plan,
            bytes: report.manifest.plan.bytes,
            sha256: report.manifest.plan.sha256.to_string(),
            peak_bytes: report.peak_bytes,
            cached: report.cached,
        },
        _ => return,
    };
    meter.aside(|output| output.event(&told));
}

fn conclude(built: &Built, pipeline: &PipelineFlags, in_order: bool, output: &Output) -> Result<Outcome, Failure> {
    let (word, folder, verdict, finished) = match built {
        Built::UpToDate(finished) => ("up to date", &finished.folder, &finished.verdict, Some(finished)),
        Built::Done(finished) => ("built", &finished.folder, &finished.verdict, Some(finished)),
        Built::Failed(finished) => ("failed", &finished.folder, &finished.verdict, Some(finished)),
        Built::Stopped { folder, verdict, .. } => ("stopped", folder, verdict, None),
    };
    let outcome = judged(verdict.as_ref(), pipeline.require_executed, folder);
    if let Some(verdict) = verdict {
        let candidates = verdict.candidates.iter().map(Candidate::from).collect();
        output.event(&Told::Verdict { verdict: verdict.verdict, executed: verdict.executed, candidates });
    }
    match (built, finished) {
        (_, Some(finished)) if pipeline.json => output.json(&json!({
            "result": word, "bundle": finished.folder.to_string_lossy(), "manifest_sha256": finished.manifest_sha256, "manifest": finished.manifest,
            "verdict": finished.verdict,
        }))?,
        (_, Some(finished)) => lines(word, finished, output)?,
        (Built::Stopped { stage, .. }, None) if pipeline.json => {
            output.json(&json!({ "result": word, "stage": stage, "folder": folder.to_string_lossy(), "verdict": verdict }))?;
        }
        (Built::Stopped { stage, .. }, None) => {
            let folder = folder.display();
            output.result(if in_order {
                format!("stages up to {stage} are done in {folder}; run without --stage to finish")
            } else {
                format!("{stage}: done in {folder}; plansmith merge joins parts")
            })?;
            verdict.iter().try_for_each(|verdict| output.result(verdict.summary()))?;
        }
        (_, None) => {}
    }
    if let Some(why) = verdict.as_ref().filter(|_| pipeline.require_executed).and_then(not_executed) {
        output.demand(&why);
    }
    // The last line: where there is none, or stdout took no result, an error follows.
    if let Ok(outcome) = &outcome {
        let sha256 = finished.map(|finished| finished.manifest_sha256.to_string());
        output.event(&Told::Result { exit_code: outcome.code(), result: word, folder, manifest_sha256: sha256 });
    }
    outcome
}

/// How a build ends whose artifacts were judged so; where they were not, nothing was left to judge.
fn judged(verdict: Option<&Verdict>, require_executed: bool, folder: &Path) -> Result<Outcome, Failure> {
    match verdict.map_or(0, |verdict| verdict.exit_code(require_executed)) {
        0 => Ok(Outcome::Done),
        1 => Ok(Outcome::Disagreed),
        _ => Err(Failure::new("the artifacts could not be checked").hint(format!("see {}", folder.join("verdict.json").display()))),
    }
}

fn lines(word: &str, finished: &Finished, output: &Output) -> Result<(), Failure> {
    let (graphs, plans) = (finished.manifest.graphs.len(), finished.manifest.plans.len());
    let what = if word == "up to date" { "nothing changed, nothing to do: " } else { "" };
    let folder = finished.folder.display();
    output.result(format!("{word}: {what}{folder} ({graphs} graphs, {plans} plans), manifest sha256 {}", finished.manifest_sha256))?;
    if word == "failed" {
        output.result(format!("the last good bundle is untouched; see {}", finished.folder.join("report.html").display()))?;
    }
    let left = &finished.manifest.verdict.not_executed;
    match &finished.verdict {
        // Its last line says what was not executed.
        Some(verdict) => output.result(verdict.summary())?,
        None if left.is_empty() => {}
        None => output.result(format!("not_executed on this host: {}", left.join(", ")))?,
    }
    Ok(())
}
