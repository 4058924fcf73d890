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
/// What `cargo xtask bench --families --update` recorded: which form of which family's graph TensorRT-RTX builds.
const PLANS: &str = include_str!("../../testdata/plans.json");
/// Families of which `cargo xtask demo` and `cargo xtask test` run a published model.
const REAL_WEIGHTS: [(&str, &str); 1] = [("llama", "SmolLM2-135M-Instruct")];

#[derive(Deserialize)]
struct Case {
    family: Option<String>,
    verdict: Option<String>,
}

#[derive(Deserialize)]
struct Plans {
    library: String,
    architecture: String,
    profile: String,
    families: BTreeMap<String, Tried>,
}

#[derive(Deserialize)]
struct Tried {
    /// Forms of the graph: `builds`, or why not.
    plans: BTreeMap<String, String>,
}

impl Plans {
    /// Forms of `family`'s graph and what became of each.
    fn of(&self, family: &Family) -> Option<&BTreeMap<String, String>> {
        self.families.get(family.model_type).map(|tried| &tried.plans)
    }

    /// The forms that build, then the others with a word why.
    fn cell(&self, family: &Family) -> String {
        let Some(forms) = self.of(family) else { return "not tried".to_owned() };
        let word = |(form, outcome): (&String, &String)| match outcome.as_str() {
            "builds" => form.clone(),
            reason if reason.starts_with("not tried") => format!("{form}: not tried"),
            _ => format!("{form}: **no**"),
        };
        let (built, others): (Vec<_>, Vec<_>) = forms.iter().partition(|(_, outcome)| *outcome == "builds");
        built.into_iter().chain(others).map(word).collect::<Vec<_>>().join(", ")
    }
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
    let plans: Plans = serde_json::from_str(PLANS).map_err(|error| Failure::new(format!("the table of plans is broken: {error}")))?;
    let rows: Vec<(&Family, Proof)> = families().iter().map(|family| (family, Proof::of(family, &cases))).collect();
    if args.json {
        let list: Vec<_> = rows
            .iter()
            .map(|(family, proof)| {
                json!({
                    "model_type": family.model_type, "architecture": family.architecture, "summary": family.summary,
                    "refuses": family.refuses, "fixtures": proof.fixtures, "real_weights": proof.real_weights,
                    "plans": { "library": plans.library, "architecture": plans.architecture, "forms": plans.of(family) },
                })
            })
            .collect();
        output.json(&list)?;
    } else if args.markdown {
        output.write(&markdown(&rows, &plans))?;
    } else {
        for (family, proof) in &rows {
            output.result(format!("{:<20} {:<32} {:<16} {}", family.model_type, family.architecture, proof.level(), family.summary))?;
        }
    }
    Ok(Outcome::Done)
}

fn markdown(rows: &[(&Family, Proof)], plans: &Plans) -> String {
    let (library, architecture, profile) = (&plans.library, &plans.architecture, &plans.profile);
    let head = format!(
        "# Families\n\n\
        Made by `plansmith families --markdown`; a test holds this page to the command.\n\n\
        A family is a `model_type` of transformers 5.24. What is not listed is refused by name, and so is every key of `config.json` that a\n\
        family neither reads nor knows to be irrelevant. Every family takes every rotation that its class has (default, linear, dynamic up to\n\
        `max_position_embeddings`, llama3, yarn, longrope), both layouts of config.json, tied and untied heads, and every activation of\n\
        `ACT2FN` but `prelu`, unless the last column says otherwise. Quantised checkpoints are refused.\n\n\
        **Proved by**: fixtures are tiny random checkpoints with transformers' logits (`testdata/cases`), held to 1e-4 of the logits' standard\n\
        deviation in prefill, padded batches and cached decode, on rten, ONNX Runtime and the reference. A named model ran with its real weights.\n\n\
        **Builds as a plan**: what {library} builds for {architecture} of a fixture's graph without a GPU, profile `{profile}`\n\
        (`cargo xtask bench --families` tries it again; `plansmith families --json` has the builder's reasons). *tensorrt* is `--dialect tensorrt`,\n\
        *portable* the default (opset 23), *primitive* `--opset 21`. Not tried: the composite attention of a fixture whose heads are not a multiple of\n\
        8 from 16 to 256, which the parser does not take; models have larger heads. **no**: the compiler fails on rotations of neighbouring pairs.\n\n\
        | model_type | class | what it is | proved by | builds as a plan | refused |\n|---|---|---|---|---|---|\n"
    );
    let row = |(family, proof): &(&Family, Proof)| {
        let refused: Vec<String> = family.refuses.iter().map(|option| format!("`{option}`")).collect();
        let (model_type, class, level) = (family.model_type, family.architecture, proof.level());
        format!("| `{model_type}` | {class} | {} | {level} | {} | {} |\n", family.summary, plans.cell(family), refused.join(", "))
    };
    rows.iter().fold(head, |page, each| page + &row(each))
}
