//! `plansmith compare`.

use plansmith_verify::{Golden, Precision, Tolerance, compare};
use serde_json::json;

use crate::args::{Compare, ComputeFlag};
use crate::exit::{Failure, Outcome};
use crate::output::Output;

pub(crate) fn run(args: &Compare, output: &Output) -> Result<Outcome, Failure> {
    let tolerance = Tolerance::of(match args.compute {
        ComputeFlag::Fp32 => Precision::Fp32,
        ComputeFlag::Fp16 => Precision::Fp16,
        ComputeFlag::Bf16 => Precision::Bf16,
    });
    let sets = compare(&Golden::open(&args.source)?, &Golden::open(&args.candidate)?, &tolerance)?;
    let agree = sets.iter().all(|(_, check)| check.passed);
    if args.json {
        let list: Vec<_> = sets.iter().map(|(set, check)| json!({ "set": set, "check": check })).collect();
        output.json(&json!({ "agree": agree, "sets": list }))?;
    } else {
        for (set, check) in &sets {
            let word = if check.passed { "agrees" } else { "differs" };
            output.result(format!(
                "{set}: {word}; {} positions, max_rel {:.2e}, KL max {:.2e}, top-1 {:.4}{}",
                check.positions,
                check.max_rel,
                check.kl_max.unwrap_or_default(),
                check.top1_agreement.unwrap_or_default(),
                check.failures.iter().map(|failure| format!("\n    {failure}")).collect::<String>(),
            ))?;
        }
        output.result(if agree { "the files agree" } else { "the files differ" })?;
    }
    Ok(if agree { Outcome::Done } else { Outcome::Disagreed })
}
