//! `plansmith build`.

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use plansmith_engine::FarmEvent;
use plansmith_pipeline::{Asked, BuildOptions, Built, Event, Finished, Progress, build, cells, plan};
use plansmith_verify::{Prompts, Verdict};
use serde_json::json;

use super::engine::{lookup, show_farm};
use super::verify::{open_options, prompts};
use crate::args::{Build, FarmFlags, Merge, PipelineFlags};
use crate::exit::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::{Output, human_bytes};
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
            return execute(pipeline, options, interrupt, output);
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
    with_options(&args.pipeline, &farm, which, |options, interrupt| execute(&args.pipeline, options, interrupt, output))
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

fn execute(pipeline: &PipelineFlags, options: &BuildOptions<'_>, interrupt: &Interrupt, output: &Output) -> Result<Outcome, Failure> {
    let bar = output.steps_bar("building", 0);
    let mut hearing = None;
    let built = build(&pipeline.pipeline, options, &mut |event| {
        match event {
            Event::Farm(FarmEvent::Opens) => hearing = Some(interrupt.heard()),
            Event::Farm(FarmEvent::Closes) => hearing = None,
            _ => {}
        }
        report(&event, &bar, output);
    })?;
    bar.finish_and_clear();
    conclude(&built, pipeline, options.only.is_empty(), output)
}

fn report(event: &Event<'_>, bar: &ProgressBar, output: &Output) {
    match event {
        Event::Source(bytes) => output.detail(format!("source: {} of weights", human_bytes(*bytes))),
        Event::Begin(name) => {
            bar.set_message((*name).to_owned());
            output.detail(format!("{name}: begins"));
        }
        Event::Check(Progress { what, check, set }) => {
            bar.set_message(format!("{what}: {check}"));
            bar.inc(1);
            output.detail(format!("verify: {what}: {check} of {set}"));
        }
        Event::Farm(event) => show_farm(event, output),
        Event::End(name, time, taken_over) => {
            bar.suspend(|| {
                let how = if *taken_over { "unchanged, taken over".to_owned() } else { format!("{:.1} s", time.as_secs_f64()) };
                output.note(format!("{name:<32} {how}"));
            });
        }
        Event::Hashed(bytes) => bar.set_message(format!("hashing: {}", human_bytes(*bytes))),
        Event::Converted(bytes) => bar.set_message(format!("converting: {}", human_bytes(*bytes))),
    }
}

fn conclude(built: &Built, pipeline: &PipelineFlags, in_order: bool, output: &Output) -> Result<Outcome, Failure> {
    let (word, finished) = match built {
        Built::UpToDate(finished) => ("up to date", finished),
        Built::Done(finished) => ("built", finished),
        Built::Failed(finished) => ("failed", finished),
        Built::Stopped { stage, folder, verdict } => {
            if pipeline.json {
                output.json(&json!({ "result": "stopped", "stage": stage, "folder": folder, "verdict": verdict }))?;
            } else {
                let folder = folder.display();
                output.result(if in_order {
                    format!("stages up to {stage} are done in {folder}; run without --stage to finish")
                } else {
                    format!("{stage}: done in {folder}; plansmith merge joins parts")
                })?;
                verdict.iter().try_for_each(|verdict| output.result(verdict.summary()))?;
            }
            return judged(verdict.as_ref(), pipeline.require_executed, folder);
        }
    };
    if pipeline.json {
        output.json(&json!({
            "result": word, "bundle": finished.folder, "manifest_sha256": finished.manifest_sha256, "manifest": finished.manifest,
            "verdict": finished.verdict,
        }))?;
    } else {
        lines(word, finished, output)?;
    }
    judged(finished.verdict.as_ref(), pipeline.require_executed, &finished.folder)
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
