//! `plansmith import`.

use plansmith_checkpoint::gguf::{ImportOptions, import};
use plansmith_tensor::DType;

use crate::args::{Import, ImportDType};
use crate::exit::{Failure, Outcome};
use crate::output::{Output, human_bytes};
use crate::progress::Meter;
use crate::replace::outside_of_builds;

pub(crate) fn run(args: &Import, output: &Output) -> Result<Outcome, Failure> {
    outside_of_builds(&args.output)?;
    let dtype = match args.dtype {
        ImportDType::Fp32 => DType::F32,
        ImportDType::Bf16 => DType::BF16,
    };
    let what = "importing";
    let meter = Meter::of(output, what);
    let progress = |done: u64, total: u64| meter.bytes(what, done, total);
    let imported = import(&args.file, &args.output, &ImportOptions { dtype, force: args.force }, &progress)?;
    drop(meter);
    for note in &imported.notes {
        output.note(format!("note: {note}"));
    }
    if args.json {
        output.json(&imported)?;
        return Ok(Outcome::Done);
    }
    let stored: Vec<String> = imported.stored.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    output.result(format!(
        "imported {} tensors ({}), {} parameters, to {}: {} as {}",
        imported.tensors,
        stored.join(", "),
        imported.parameters,
        imported.folder.display(),
        human_bytes(imported.bytes),
        imported.dtype,
    ))?;
    if imported.rounded > 0 {
        output.result(format!("{} weights are not exact in {}: rounded to nearest", imported.rounded, imported.dtype))?;
    }
    Ok(Outcome::Done)
}
