//! `plansmith golden`.

use plansmith_lowering::Source;
use plansmith_reference::Reference;
use plansmith_verify::{Capture, Keep, REFERENCE_PRODUCER};

use super::export::options;
use super::verify::prompts;
use crate::args::Golden;
use crate::exit::{Failure, Outcome};
use crate::output::Output;
use crate::progress::Meter;
use crate::replace::{Kind, may_write};

pub(crate) fn run(args: &Golden, output: &Output) -> Result<Outcome, Failure> {
    may_write(&args.output, Kind::Golden)?;
    let source = Source::open(&args.source, &options(&args.config))?;
    let (prompts, origin) = prompts(&source, args.prompts.as_deref(), None)?;
    // Goldens of two models are to be comparable.
    let prompts = prompts.fixed();
    let vocab = source.loaded.spec.vocab_size as usize;
    let mut reference = Reference::open(source.loaded.spec.clone(), &source.checkpoint)?;
    let (what, sets) = ("computing", prompts.sets().len());
    let meter = Meter::of(output, what);
    let keep = Keep::File(&args.output);
    Capture::record(&mut reference, &prompts, vocab, keep, REFERENCE_PRODUCER, &mut |progress| {
        meter.doing(what, format!("{} of {sets} prompt sets", progress.done));
    })?;
    drop(meter);
    output.result(format!("wrote {}: {sets} prompt sets ({origin}), logits of the built-in reference in fp32", args.output.display()))?;
    Ok(Outcome::Done)
}
