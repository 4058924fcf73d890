//! `plansmith export`.

mod guard;

use std::path::Path;

use plansmith_files::{TempFolder, rename, sha256_file};
use plansmith_lowering::{
    Dialect, Exported, Float, Kv, LogitsAt, Placement, Source, Target, WeightNames, WeightsMode, export, graph_name, lower,
};
use plansmith_pipeline::{PlanModel, Variant, companions, served_name, sidecars, triton_config, triton_plans};

use super::verify::audited;
use crate::args::{ComputeFlag, ConfigFlags, DialectFlag, Export, KvFlag, LayoutFlag, LogitsFlag, StorageFlag, WeightsFlag};
use crate::exit::{Failure, Outcome};
use crate::output::{Output, human_bytes};
use crate::progress::Meter;
use crate::replace::{Kind, may_write};
use crate::stamp;

pub(crate) fn run(args: &Export, output: &Output) -> Result<Outcome, Failure> {
    let target = target(args)?;
    if args.hub_layout && args.layout != LayoutFlag::Clients {
        return Err(Failure::new("--hub-layout names files for clients").hint("pass --layout clients too"));
    }
    let models = triton_plans(&served_as(args), &args.plan)?;
    if args.layout != LayoutFlag::Triton && !models.is_empty() {
        return Err(Failure::new("--plan adds a model to a repository for Triton").hint("pass --layout triton too"));
    }
    guard::check_output(args)?;
    if args.layout == LayoutFlag::Triton {
        let names = std::iter::once(served_as(args)).chain(models.iter().map(|model| model.name.clone()));
        names.map(|name| args.output.join(name).join("config.pbtxt")).try_for_each(|path| may_write(&path, Kind::Triton))?;
    }
    let source = Source::open(&args.checkpoint, &options(&args.config))?;
    if args.audit {
        for file in &audited(&source, output)?.files {
            output.note(format!("audited {}: sha256 {}", file.name, file.sha256));
        }
    }
    let lowered = lower(&source, &target)?;
    if args.text {
        output.result(lowered.graph.to_string())?;
    }
    let mode = match args.weights {
        WeightsFlag::Auto => WeightsMode::Auto,
        WeightsFlag::InPlace => WeightsMode::InPlace,
        WeightsFlag::Copy => WeightsMode::Copy,
    };
    let folder = match args.layout {
        LayoutFlag::Plain => args.output.clone(),
        LayoutFlag::Clients => args.output.join("onnx"),
        LayoutFlag::Triton => args.output.join(served_as(args)).join("1/model.onnx"),
    };
    let name = if args.layout == LayoutFlag::Triton { "model.onnx".to_owned() } else { graph_name(&lowered) };
    guard::check_readers(&source, &lowered, &folder, &name)?;
    let (what, total) = ("exporting", lowered.table.files.read_bytes(&source.checkpoint)?);
    let meter = Meter::of(output, what);
    let export = |folder: &Path| export(&source, &target, mode, folder, Some(&name), stamp::LONG, &|done| meter.bytes(what, done, total));
    let exported = match guard::read_converted(&lowered, &folder, &name)? {
        None => export(&folder)?,
        // Only once they are converted is it known whether they are the same.
        Some((weights, reader)) => {
            let aside = TempFolder::beside(&weights)?;
            let mut exported = export(aside.path())?;
            if exported.weights.iter().any(|file| file.sha256 != sha256_file(&weights).ok()) {
                return Err(guard::read_by(&weights, &reader));
            }
            exported.weights.iter_mut().for_each(|file| file.path.clone_from(&weights));
            let graph = folder.join(&name);
            rename(&exported.graph, &graph)?;
            Exported { graph, ..exported }
        }
    };
    drop(meter);
    match args.layout {
        LayoutFlag::Plain => {}
        LayoutFlag::Clients => write_sidecars(&source, &exported, args, output)?,
        LayoutFlag::Triton => {
            let model = plansmith_onnx::load(&exported.graph)?;
            let text = triton_config(&served_as(args), &exported.graph, &model)?;
            plansmith_files::write_atomic(&args.output.join(served_as(args)).join("config.pbtxt"), text.as_bytes())?;
            models.iter().try_for_each(|model| write_plans(model, args, output))?;
        }
    }
    if args.json {
        output.json(&exported)?;
    } else {
        report(&exported, output)?;
    }
    Ok(Outcome::Done)
}

/// What Triton serves the model as: the checkpoint folder's name, in the characters that a URL takes.
fn served_as(args: &Export) -> String {
    let folder = plansmith_files::canonicalize(&args.checkpoint).unwrap_or_else(|_| args.checkpoint.clone());
    served_name(&folder.file_name().unwrap_or_default().to_string_lossy())
}

/// A model of plans, in a repository for Triton: plans first, so that what a configuration names is there.
fn write_plans(model: &PlanModel, args: &Export, output: &Output) -> Result<(), Failure> {
    let folder = args.output.join(&model.name);
    plansmith_files::create_dir_all(&folder.join("1"))?;
    for (name, plan) in &model.files {
        plansmith_files::copy_file(plan, &folder.join("1").join(name))?;
    }
    plansmith_files::write_atomic(&folder.join("config.pbtxt"), model.config.as_bytes())?;
    if !args.json {
        output.result(format!("wrote {}: {} plans by compute capability", folder.display(), model.files.len()))?;
    }
    Ok(())
}

/// The files of clients, at the root of the output.
fn write_sidecars(source: &Source, exported: &Exported, args: &Export, output: &Output) -> Result<(), Failure> {
    let file = format!("onnx/{}", exported.graph.file_name().unwrap_or_default().to_string_lossy());
    let data = exported.weights.iter().filter_map(|file| Some(file.path.file_name()?.to_string_lossy().into_owned())).collect();
    let variant = Variant { file, cache: exported.compute, shares_buffer: exported.shares_buffer, data };
    let written = sidecars(source, &companions(&args.checkpoint), &[variant])?;
    for (name, bytes) in written.files {
        plansmith_files::write_atomic(&args.output.join(name), &bytes)?;
    }
    for note in written.notes {
        output.note(note);
    }
    Ok(())
}

/// How config.json is to be read.
pub(crate) fn options(flags: &ConfigFlags) -> plansmith_families::Options {
    plansmith_families::Options { allow_unknown_config: flags.allow_unknown_config.clone(), max_length: flags.max_length }
}

fn target(args: &Export) -> Result<Target, Failure> {
    let storage = match args.dtype {
        StorageFlag::Source => None,
        StorageFlag::Fp32 => Some(Float::Fp32),
        StorageFlag::Fp16 => Some(Float::Fp16),
        StorageFlag::Bf16 => Some(Float::Bf16),
        StorageFlag::Int8 | StorageFlag::Int4 => {
            return Err(Failure::new("--dtype int8 and int4 are not written yet").hint("pass --dtype source, fp32, fp16 or bf16"));
        }
    };
    let dialect = match args.dialect {
        DialectFlag::Portable => Dialect::Portable,
        DialectFlag::Tensorrt => Dialect::Tensorrt,
        DialectFlag::Onnxruntime => Dialect::Onnxruntime,
    };
    let kv = match args.kv {
        KvFlag::Concat => Kv::Concat,
        KvFlag::Static => Kv::Static,
    };
    let logits = match args.logits {
        LogitsFlag::All => LogitsAt::All,
        LogitsFlag::Last => LogitsAt::Last,
    };
    let weight_names = if args.hub_layout { WeightNames::Hub } else { WeightNames::Checkpoint };
    Ok(Target { storage, compute: args.compute.map(compute), dialect, logits, opset: args.opset, kv, weight_names })
}

/// A flag as lowering names it.
pub(crate) fn compute(flag: ComputeFlag) -> Float {
    match flag {
        ComputeFlag::Fp32 => Float::Fp32,
        ComputeFlag::Fp16 => Float::Fp16,
        ComputeFlag::Bf16 => Float::Bf16,
    }
}

fn report(exported: &Exported, output: &Output) -> Result<(), Failure> {
    for file in &exported.weights {
        let how = match file.placement {
            Placement::InPlace => "used in place",
            Placement::Reflinked => "shares its blocks with the source (reflink)",
            Placement::Copied => "copied byte for byte",
            Placement::Converted => "converted",
        };
        output.result(format!("weights {}: {}, {how}", file.path.display(), human_bytes(file.bytes)))?;
    }
    for note in &exported.notes {
        output.note(note);
    }
    output.result(format!(
        "wrote {}: {}, opset {}, weights {}, compute {}",
        exported.graph.display(),
        human_bytes(exported.graph_bytes),
        exported.opset,
        exported.storage,
        exported.compute,
    ))?;
    match exported.slots {
        Some(slots) => output.result(format!("cache of {slots} slots a row: past_key_values and present may share one buffer")),
        None => Ok(()),
    }
}
