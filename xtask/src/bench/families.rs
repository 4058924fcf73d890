//! `cargo xtask bench --families`: which families' graphs build as TensorRT-RTX plans, one fixture a family.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use plansmith_files::{self as files, TempFolder};
use serde::{Deserialize, Serialize};

use super::fixtures::{self, Fixture};
use super::plans::{BUILDS, FORMS, Maker, PORTABLE};
use crate::assets::Asset;
use crate::error::Error;
use crate::places;
use crate::process::Program;
use crate::setup::Setup;
use crate::worker::Worker;

const RECORD: &str = "testdata/plans.json";
const ARCHITECTURE: &str = "sm89";
const PROFILE: &str = "batch=1,sequence=1..8..32,past=0..8..31";
const AT_ONCE: usize = 2;

/// `testdata/plans.json`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    library: String,
    architecture: String,
    profile: String,
    /// By `model_type`.
    families: BTreeMap<String, Family>,
}

/// One family's fixture and what came of its graphs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Family {
    case: String,
    /// By the names of [`FORMS`]: `builds`, or the builder's reason.
    plans: BTreeMap<String, String>,
}

/// Builds every form of every family, prints a table, and compares it with the record, or writes that.
pub(crate) fn main(update: bool) -> Result<(), Error> {
    let setup = Setup::get(&[Asset::Libclang, Asset::TensorRtRtx], false)?;
    let worker = Worker::new(&setup)?;
    worker.cargo("build").run()?;
    // Unoptimised: TensorRT takes the time.
    Program::cargo().args(["build", "--package", "plansmith"]).current_dir(&places::root()).run()?;
    let maker = Maker::new(&setup, &worker, ARCHITECTURE, PROFILE);
    let scratch = TempFolder::beside(&places::target().join("families"))?;
    let chosen = fixtures::one_a_family(&maker, scratch.path())?;
    let families = build(&maker, &chosen, scratch.path())?;
    let library = format!("TensorRT-RTX {}", Asset::TensorRtRtx.recipe().packages[0].version);
    let record = Record { library, architecture: ARCHITECTURE.into(), profile: PROFILE.into(), families };
    record.print();
    let path = places::root().join(RECORD);
    if update {
        let text = serde_json::to_string_pretty(&record).map_err(|source| Error::Json { path: path.clone(), source })?;
        files::write_atomic(&path, format!("{text}\n").as_bytes())?;
        println!("wrote {RECORD}");
        return Ok(());
    }
    let known = serde_json::from_str(&files::read_to_string(&path)?).map_err(|source| Error::Json { path, source })?;
    match record.differences(&known) {
        differences if differences.is_empty() => Ok(()),
        differences => Err(Error::Steps(format!("{RECORD} says otherwise; --update takes this over:\n  {}", differences.join("\n  ")))),
    }
}

/// Every form of every fixture, [`AT_ONCE`] at a time.
fn build(maker: &Maker, chosen: &[Fixture], scratch: &Path) -> Result<BTreeMap<String, Family>, Error> {
    let jobs = Mutex::new(chosen.iter().flat_map(|fixture| FORMS.map(|form| (fixture, form))));
    let work = || -> Result<Vec<_>, Error> {
        let mut outcomes = Vec::new();
        loop {
            let job = jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
            let Some((fixture, form)) = job else { return Ok(outcomes) };
            let outcome = maker.plan(&fixture.folder, form, &scratch.join(&fixture.case).join(form.name))?;
            // A real model's heads would not have failed it: that says nothing.
            let outcome = match fixture.odd_head {
                Some(size) if form == PORTABLE && outcome != BUILDS => format!("not tried: the fixture's heads have {size} elements"),
                _ => outcome,
            };
            println!("{:<20} {:<15} {outcome}", fixture.family, form.name);
            outcomes.push((fixture, form, outcome));
        }
    };
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect::<Result<_, _>>()
    })?;
    let mut families = BTreeMap::new();
    for (fixture, form, outcome) in outcomes.into_iter().flatten() {
        let new = || Family { case: fixture.case.clone(), plans: BTreeMap::new() };
        families.entry(fixture.family.clone()).or_insert_with(new).plans.insert(form.name.to_owned(), outcome);
    }
    Ok(families)
}

impl Record {
    fn print(&self) {
        println!("\n{}, {}, {}", self.library, self.architecture, self.profile);
        let names = FORMS.map(|form| form.name);
        println!("\n| family | case | {} |\n|---|---{}|", names.join(" | "), "|---".repeat(names.len()));
        for (name, family) in &self.families {
            let cells: Vec<&str> = names.iter().map(|form| family.plans[*form].as_str()).collect();
            println!("| {name} | {} | {} |", family.case, cells.join(" | "));
        }
        for form in names {
            let built = self.families.values().filter(|family| family.plans[form] == BUILDS).count();
            println!("{form}: {built} of {} families build", self.families.len());
        }
    }

    /// What is not as in `known`, a line each.
    fn differences(&self, known: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        let setting = |record: &Self| [record.library.clone(), record.architecture.clone(), record.profile.clone()].join(", ");
        if setting(self) != setting(known) {
            differences.push(format!("{}, not {}", setting(self), setting(known)));
        }
        for name in self.families.keys().chain(known.families.keys().filter(|name| !self.families.contains_key(*name))) {
            let say = |record: &Self| record.families.get(name).map_or_else(|| "not there".to_owned(), |family| format!("{family:?}"));
            if say(self) != say(known) {
                differences.push(format!("{name}: {}; recorded: {}", say(self), say(known)));
            }
        }
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(families: &[(&str, &str)]) -> Record {
        let family = |outcome: &str| Family {
            case: "made".into(),
            plans: FORMS.iter().map(|form| (form.name.to_owned(), outcome.to_owned())).collect(),
        };
        let families = families.iter().map(|(name, outcome)| ((*name).to_owned(), family(outcome))).collect();
        Record { library: "1".into(), architecture: "sm89".into(), profile: PROFILE.into(), families }
    }

    #[test]
    fn a_family_that_is_new_gone_or_different_is_named() {
        let known = record(&[("a", "builds"), ("b", "builds"), ("c", "builds")]);
        assert!(known.differences(&record(&[("a", "builds"), ("b", "builds"), ("c", "builds")])).is_empty());
        let found = record(&[("a", "builds"), ("b", "no"), ("d", "builds")]).differences(&known);
        let named: Vec<&str> = found.iter().filter_map(|line| line.split(':').next()).collect();
        assert_eq!(named, ["b", "d", "c"]);
    }
}
