//! `plansmith families`.

use plansmith_families::families;
use serde_json::json;

use crate::args::Families;
use crate::exit::{Failure, Outcome};
use crate::output::Output;

pub(crate) fn run(args: &Families, output: &Output) -> Result<Outcome, Failure> {
    if args.json {
        let list: Vec<_> = families()
            .iter()
            .map(|family| json!({ "model_type": family.model_type, "architecture": family.architecture, "summary": family.summary }))
            .collect();
        output.json(&list)?;
        return Ok(Outcome::Done);
    }
    for family in families() {
        output.result(format!("{:<10} {:<22} {}", family.model_type, family.architecture, family.summary))?;
    }
    Ok(Outcome::Done)
}
