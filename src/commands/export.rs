//! `plansmith export`.

use plansmith_lowering::{Dialect, Exported, Float, Kv, LogitsAt, Placement, Source, Target, WeightsMode, export, lower};
use plansmith_pipeline::audit_source;

use crate::args::{ComputeFlag, ConfigFlags, DialectFlag, Export, KvFlag, LogitsFlag, StorageFlag, WeightsFlag};
use crate::exit::{Failure, Outcome};
use crate::output::{Output, human_bytes};
use crate::stamp;

pub(crate) fn run(args: &Export, output: &Output) -> Result<Outcome, Failure> {
    let target = target(args)?;
    let source = Source::open(&args.checkpoint, &options(&args.config))?;
    if args.audit {
        let bar = output.bytes_bar("auditing", source.checkpoint.files().iter().map(|file| file.size).sum());
        let audit = audit_source(&source, &|done| bar.set_position(done))?;
        bar.finish_and_clear();
        for file in &audit.files {
            output.note(format!("audited {}: sha256 {}", file.name, file.sha256));
        }
    }
    if args.text {
        output.result(lower(&source, &target)?.graph.to_string())?;
    }
    let mode = match args.weights {
        WeightsFlag::Auto => WeightsMode::Auto,
        WeightsFlag::InPlace => WeightsMode::InPlace,
        WeightsFlag::Copy => WeightsMode::Copy,
    };
    let bar = output.bytes_bar("converting", 0);
    let exported = export(&source, &target, mode, &args.output, None, stamp::LONG, &|done| {
        bar.set_length(bar.length().unwrap_or(0).max(done));
        bar.set_position(done);
    })?;
    bar.finish_and_clear();
    if args.json {
        output.json(&exported)?;
    } else {
        report(&exported, output)?;
    }
    Ok(Outcome::Done)
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
        DialectFlag::Onnxruntime => {
            return Err(
                Failure::new("--dialect onnxruntime is not written yet").hint("pass --dialect portable, whose graphs ONNX Runtime loads")
            );
        }
    };
    let kv = match args.kv {
        KvFlag::Concat => Kv::Concat,
        KvFlag::Static => Kv::Static,
    };
    let logits = match args.logits {
        LogitsFlag::All => LogitsAt::All,
        LogitsFlag::Last => LogitsAt::Last,
    };
    Ok(Target { storage, compute: args.compute.map(compute), dialect, logits, opset: args.opset, kv })
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
