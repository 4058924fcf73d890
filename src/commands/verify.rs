//! `plansmith verify`.

use std::cell::LazyCell;
use std::path::{Path, PathBuf};

use plansmith_checkpoint::Audit;
use plansmith_engine::DeviceOptions;
use plansmith_lowering::{Float, Source, Target, lower};
use plansmith_pipeline::{Assessment, GraphCandidate, PlanCandidate, Progress, assess, assess_bundle, audit_source, builtin_within};
use plansmith_runtime::{ModelShape, NameMap, OpenOptions, RuntimeKind};
use plansmith_verify::{Limits, Outcome as Verdicts, Prompts, Verdict};

use super::engine::lookup;
use super::export::options;
use crate::args::{Tools, Verify};
use crate::exit::{Failure, Outcome};
use crate::output::Output;
use crate::progress::Meter;
use crate::replace::{Kind, clear, may_write};
use crate::text::TextModel;

pub(crate) fn run(args: &Verify, output: &Output) -> Result<Outcome, Failure> {
    clear_reports(args)?;
    let runtimes = args.runtime.iter().map(|name| name.parse()).collect::<Result<Vec<RuntimeKind>, _>>()?;
    let (mut graphs, plans) = candidates(args)?;
    if let Some(bundle) = &args.bundle {
        return by_bundle(args, bundle, graphs, plans, &runtimes, output);
    }
    let Some(folder) = &args.source else {
        return Err(Failure::new("no source was given").hint("plansmith verify CHECKPOINT"));
    };
    let source = Source::open(folder, &options(&args.config))?;

    let audit = audited(&source, output)?;

    if graphs.is_empty() && plans.is_empty() {
        graphs.push(in_memory(&source)?);
    }
    if let Some(length) = source.loaded.spec.switch_length() {
        output.note(format!("rotations change beyond {length} tokens, and a cache with them: each check stays on one side of that length"));
    }
    let slots = graphs.iter().filter_map(GraphCandidate::static_slots).min();
    let (prompts, origin) = prompts(&source, args.prompts.as_deref(), slots)?;

    let meter = Meter::of(output, VERIFYING);
    let verdict = assess(
        &Assessment {
            source: &source,
            source_name: &folder.display().to_string(),
            revision: plansmith_checkpoint::commit_of_folder(folder).as_deref(),
            graphs: &graphs,
            plans: &plans,
            runtimes: &runtimes,
            golden: args.golden.as_deref(),
            prompts: &prompts,
            prompts_origin: &origin,
            keep: None,
            keep_noise: None,
            limits: limits(args),
            open: &OpenOptions { shape: Some(model_shape(&source)), ..graph_options(args)? },
            lookup: &lookup(&args.tools),
            bisect: args.bisect,
        },
        &audit,
        &mut |progress| show(&progress, &meter),
    )?;
    drop(meter);
    conclude(&verdict, args, output)
}

/// What `--report` writes into its folder.
const REPORTS: [(&str, Kind); 3] = [("verdict.json", Kind::Verdict), ("report.html", Kind::Page), ("junit.xml", Kind::JUnit)];

/// Removes what an earlier run left where this one will write; refuses where that is not ours.
fn clear_reports(args: &Verify) -> Result<(), Failure> {
    let reports = args.report.iter().flat_map(|folder| REPORTS.map(|(name, kind)| (folder.join(name), kind)));
    let json = args.json.iter().filter(|path| *path != Path::new("-")).map(|path| (path.clone(), Kind::Verdict));
    let files: Vec<(PathBuf, Kind)> = reports.chain(json).collect();
    files.iter().try_for_each(|(path, kind)| may_write(path, *kind))?;
    files.iter().try_for_each(|(path, kind)| clear(path, *kind))
}

/// What the long part is called.
const VERIFYING: &str = "verifying";

fn show(progress: &Progress<'_>, meter: &Meter) {
    let Progress { what, check, set } = progress;
    meter.doing(VERIFYING, format!("{what}: {check}"));
    meter.aside(|output| output.detail(format!("{what}: {check} of {set}")));
}

/// Hashes the source and looks through its weights.
pub(crate) fn audited(source: &Source, output: &Output) -> Result<Audit, Failure> {
    let (what, total) = ("hashing", source.checkpoint.files().iter().map(|file| file.size).sum());
    let meter = Meter::of(output, what);
    Ok(audit_source(source, &|done| meter.bytes(what, done, total))?)
}

fn limits(args: &Verify) -> Limits {
    Limits { max_abs: args.max_abs, max_kl: args.max_kl, min_top1: args.min_top1, without: args.without.iter().copied().collect() }
}

/// The graphs and plans that flags name.
fn candidates(args: &Verify) -> Result<(Vec<GraphCandidate>, Vec<PlanCandidate>), Failure> {
    let graph = |path: &PathBuf| GraphCandidate::file(path, &path.display().to_string());
    let plans = args.plan.iter().map(|path| (path.clone(), path.display().to_string())).collect();
    Ok((args.onnx.iter().map(graph).collect::<Result<_, _>>()?, PlanCandidate::files(plans)?))
}

/// Without the source: the bundle's own logits are the oracle.
fn by_bundle(
    args: &Verify,
    bundle: &Path,
    graphs: Vec<GraphCandidate>,
    plans: Vec<PlanCandidate>,
    runtimes: &[RuntimeKind],
    output: &Output,
) -> Result<Outcome, Failure> {
    if args.bisect {
        return Err(Failure::new("--bisect runs the source's reference, and a bundle has no source")
            .hint("plansmith verify CHECKPOINT --onnx FILE --bisect"));
    }
    if args.source.is_some() || args.golden.is_some() || args.prompts.is_some() {
        return Err(Failure::new("--bundle takes source, oracle and prompts from the bundle")
            .hint("leave out SOURCE, --golden and --prompts, or leave out --bundle"));
    }
    if !args.config.allow_unknown_config.is_empty() || args.config.max_length.is_some() {
        return Err(Failure::new(
            "--allow-unknown-config and --max-length are for reading a source's config.json, and a bundle has no source",
        )
        .hint("leave them out, or pass SOURCE and leave out --bundle"));
    }
    let artifacts = if graphs.is_empty() && plans.is_empty() { None } else { Some((graphs, plans)) };
    let meter = Meter::of(output, VERIFYING);
    let (open, lookup) = (graph_options(args)?, lookup(&args.tools));
    let verdict = assess_bundle(bundle, artifacts, runtimes, limits(args), &open, &lookup, &mut |progress| show(&progress, &meter))?;
    drop(meter);
    conclude(&verdict, args, output)
}

/// The checkpoint's graph in fp32, nowhere on disk, over the weights where they lie.
fn in_memory(source: &Source) -> Result<GraphCandidate, Failure> {
    let target = Target { compute: Some(Float::Fp32), ..Target::default() };
    let lowered = lower(source, &target)?;
    let model = lowered.graph.finish(&lowered.metadata(source, &target, crate::stamp::LONG)).map_err(plansmith_lowering::Error::from)?;
    Ok(GraphCandidate::memory(model, source.checkpoint.dir(), "export in memory (fp32 compute)"))
}

/// The prompts of a file, or the built-in ones, as far as they fit into so many slots; and what the verdict calls them.
pub(crate) fn prompts(source: &Source, file: Option<&Path>, slots: Option<u64>) -> Result<(Prompts, String), Failure> {
    let spec = &source.loaded.spec;
    let (vocab, positions) = (spec.vocab_size as usize, spec.max_positions as usize);
    let switch = spec.switch_length().map(|length| length as usize);
    let Some(path) = file else {
        return Ok((builtin_within(spec, slots)?, "builtin".into()));
    };
    // Prompts of ids need no tokenizer.
    let text = LazyCell::new(|| TextModel::find(&[source.checkpoint.dir().to_owned()]).map_err(|failure| failure.line()));
    let prompts = Prompts::from_jsonl(path, vocab, positions, |line| {
        let ids = text.as_ref().map_err(Clone::clone)?.encode(line, true).map_err(|failure| failure.line())?;
        Ok(ids.into_iter().map(i64::from).collect())
    })?;
    Ok((prompts.switching_at(switch), path.display().to_string()))
}

/// Flags on libraries and on graphs as the runtimes take them.
fn graph_options(args: &Verify) -> Result<OpenOptions, Failure> {
    let names = NameMap::parse(args.map.iter().map(String::as_str))?;
    Ok(OpenOptions { names, unpadded: args.unpadded, ..open_options(&args.tools) })
}

/// What the source knows and graphs may leave open.
fn model_shape(source: &Source) -> ModelShape {
    let cache = source.loaded.spec.layers.iter().map(|layer| (layer.attention.kv_heads as usize, layer.attention.head_dim as usize));
    ModelShape { cache: cache.collect() }
}

/// Flags on libraries as the runtimes take them.
pub(crate) fn open_options(tools: &Tools) -> OpenOptions {
    let kernels = plansmith_files::cache_folder().map(|folder| folder.join("kernels"));
    let device = DeviceOptions { gpu: tools.gpu, kernels };
    OpenOptions { ort_library: tools.ort_library.clone(), device, ..OpenOptions::default() }
}

/// What `--require-executed` finds lacking where nothing else is amiss, and the next step.
pub(crate) fn not_executed(verdict: &Verdict) -> Option<String> {
    if verdict.exit_code(false) != 0 || verdict.exit_code(true) == 0 {
        return None;
    }
    let left = verdict.candidates.iter().filter(|candidate| candidate.verdict == Verdicts::NotExecuted);
    let names: Vec<&str> = left.map(|candidate| candidate.facts.path.as_str()).collect();
    let what = if names.len() == 1 { "1 artifact was".to_owned() } else { format!("{} artifacts were", names.len()) };
    Some(format!(
        "--require-executed: {what} not executed on this host: {}; `plansmith doctor` says what it lacks: run this where that is there, or \
         leave the flag out",
        names.join(", ")
    ))
}

fn conclude(verdict: &Verdict, args: &Verify, output: &Output) -> Result<Outcome, Failure> {
    let json = verdict.to_json().map_err(|error| Failure::new(format!("cannot write the verdict: {error}")))?;
    if let Some(folder) = &args.report {
        plansmith_files::create_dir_all(folder)?;
        plansmith_files::write_atomic(&folder.join("verdict.json"), json.as_bytes())?;
        plansmith_files::write_atomic(&folder.join("report.html"), verdict.to_html().as_bytes())?;
        plansmith_files::write_atomic(&folder.join("junit.xml"), verdict.to_junit().as_bytes())?;
    }
    match args.json.as_deref() {
        Some(path) if path == Path::new("-") => output.write(&json)?,
        Some(path) => plansmith_files::write_atomic(&PathBuf::from(path), json.as_bytes())?,
        None => {}
    }
    if args.json.as_deref() != Some(Path::new("-")) {
        output.result(verdict.summary())?;
    }
    if let Some(why) = args.require_executed.then(|| not_executed(verdict)).flatten() {
        output.demand(&why);
    }
    match verdict.exit_code(args.require_executed) {
        0 => Ok(Outcome::Done),
        1 => Ok(Outcome::Disagreed),
        _ => Err(Failure::new(verdict.reason.clone().unwrap_or_else(|| "the candidates could not be checked".into()))
            .hint("the lines above and verdict.json (--json FILE) say what could not be executed")),
    }
}
