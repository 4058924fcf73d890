//! `plansmith families`.

use std::collections::BTreeMap;

use plansmith_families::{Family, families};
use serde::Deserialize;
use serde_json::json;

use crate::args::Families;
use crate::exit::{Failure, Outcome};
use crate::output::Output;

/// The table of cases whose logits transformers computed; `cargo xtask test` runs all of them.
const CASES: &str = include_str!("../../testdata/cases/expected.json");
/// Families of which `cargo xtask demo` and `cargo xtask test` run a published model.
const REAL_WEIGHTS: [(&str, &str); 1] = [("llama", "SmolLM2-135M-Instruct")];

#[derive(Deserialize)]
struct Case {
    family: Option<String>,
    verdict: Option<String>,
}

/// What is proved of a family.
struct Proof {
    fixtures: Vec<String>,
    real_weights: Option<&'static str>,
}

impl Proof {
    fn of(family: &Family, cases: &BTreeMap<String, Case>) -> Self {
        let agrees = |case: &Case| case.verdict.as_deref() == Some("agree") && case.family.as_deref() == Some(family.model_type);
        Self {
            fixtures: cases.iter().filter(|(_, case)| agrees(case)).map(|(name, _)| name.clone()).collect(),
            real_weights: REAL_WEIGHTS.iter().find(|(model_type, _)| *model_type == family.model_type).map(|&(_, name)| name),
        }
    }

    fn level(&self) -> String {
        let fixtures = match self.fixtures.len() {
            1 => "1 fixture".to_owned(),
            count => format!("{count} fixtures"),
        };
        self.real_weights.map_or_else(|| fixtures.clone(), |name| format!("{fixtures}, {name}"))
    }
}

pub(crate) fn run(args: &Families, output: &Output) -> Result<Outcome, Failure> {
    let cases: BTreeMap<String, Case> =
        serde_json::from_str(CASES).map_err(|error| Failure::new(format!("the table of cases is broken: {error}")))?;
    let rows: Vec<(&Family, Proof)> = families().iter().map(|family| (family, Proof::of(family, &cases))).collect();
    if args.json {
        let list: Vec<_> = rows
            .iter()
            .map(|(family, proof)| {
                json!({
                    "model_type": family.model_type, "architecture": family.architecture, "summary": family.summary,
                    "refuses": family.refuses, "fixtures": proof.fixtures, "real_weights": proof.real_weights,
                })
            })
            .collect();
        output.json(&list)?;
    } else if args.markdown {
        output.write(&markdown(&rows))?;
    } else {
        for (family, proof) in &rows {
            output.result(format!("{:<20} {:<32} {:<16} {}", family.model_type, family.architecture, proof.level(), family.summary))?;
        }
    }
    Ok(Outcome::Done)
}

fn markdown(rows: &[(&Family, Proof)]) -> String {
    let head = "# Families\n\n\
        Made by `plansmith families --markdown`; a test holds this page to the command.\n\n\
        A family is a `model_type` of transformers 5.24. What is not listed is refused by name, and so is every key of `config.json` that a\n\
        family neither reads nor knows to be irrelevant. Every family takes every rotation that its class has (default, linear, dynamic up to\n\
        `max_position_embeddings`, llama3, yarn, longrope), both layouts of config.json, tied and untied heads, and every activation of\n\
        `ACT2FN` but `prelu`, unless the last column says otherwise. Quantised checkpoints are refused.\n\n\
        **Proved by**: fixtures are tiny random checkpoints with transformers' logits (`testdata/cases`), held to 1e-4 of the logits' standard\n\
        deviation in prefill, padded batches and cached decode, on rten, ONNX Runtime and the reference. A named model ran with its real weights.\n\n\
        | model_type | class | what it is | proved by | refused |\n|---|---|---|---|---|\n";
    let row = |(family, proof): &(&Family, Proof)| {
        let refused: Vec<String> = family.refuses.iter().map(|option| format!("`{option}`")).collect();
        let (model_type, class, level) = (family.model_type, family.architecture, proof.level());
        format!("| `{model_type}` | {class} | {} | {level} | {} |\n", family.summary, refused.join(", "))
    };
    rows.iter().fold(head.to_owned(), |page, each| page + &row(each))
}
