//! A plan against its manifest, without a GPU.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plansmith_files::Digest;

use crate::{Error, FileRecord, PlanHeader, PlanManifest, architecture_bits};

/// What [`check_plan`] found in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanCheck {
    /// The plan.
    pub plan: PathBuf,
    /// The manifest.
    pub manifest: PlanManifest,
    /// What was compared, one line each.
    pub checked: Vec<String>,
    /// How long it took, the hashes above all.
    pub time: Duration,
}

/// Where the manifest of `plan` is: `decode.json` beside `decode.plan`.
pub fn manifest_path(plan: &Path) -> PathBuf {
    plan.with_extension("json")
}

/// Compares size, header and hash of a plan with the manifest beside it, and the manifest with itself.
///
/// # Errors
/// [`Error::Data`]: the data file of a stripped plan is missing or another one. [`Error::PlanMismatch`] with the first thing that differs and
/// both sides; [`Error::Plan`], [`Error::Manifest`], [`Error::File`].
pub fn check_plan(plan: &Path) -> Result<PlanCheck, Error> {
    check(plan, &mut HashMap::new())
}

/// Checks plans, the data files that they share once.
///
/// # Errors
/// Those of [`check_plan`], of the first plan that has one.
pub fn check_plans(plans: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Vec<PlanCheck>, Error> {
    let mut hashes = HashMap::new();
    plans.into_iter().map(|plan| check(plan.as_ref(), &mut hashes)).collect()
}

/// `hashes`: those of data files that were read before.
fn check(plan: &Path, hashes: &mut HashMap<PathBuf, Digest>) -> Result<PlanCheck, Error> {
    let start = Instant::now();
    let manifest = PlanManifest::read(&manifest_path(plan))?;
    let differs = |what, found: String, expected: String| {
        if found == expected { Ok(()) } else { Err(Error::PlanMismatch { path: plan.to_owned(), what, found, expected }) }
    };
    let bytes = plansmith_files::metadata(plan)?.len();
    differs("size in bytes", bytes.to_string(), manifest.plan.bytes.to_string())?;
    let header = PlanHeader::read(plan)?;
    differs("flavour", header.flavor.to_string(), manifest.flavor.to_string())?;
    differs("TensorRT version", header.version.to_string(), manifest.library.version.to_string())?;
    let bits = architecture_bits(&manifest.architectures);
    if let Some(found) = header.architecture_bits {
        differs("architecture bits", format!("{found:#x}"), format!("{bits:#x}"))?;
    }
    if header != manifest.plan.header {
        differs("header", format!("{header:?}"), format!("{:?}", manifest.plan.header))?;
    }
    differs("SHA-256", FileRecord::of(plan)?.sha256.to_string(), manifest.plan.sha256.to_string())?;
    let mut checked = vec![
        format!("{bytes} bytes, as header and manifest say"),
        format!("header of {} {} for {}", header.flavor, header.version, list(&header)),
        "SHA-256 of the manifest".to_owned(),
    ];
    for (path, record) in manifest.data_files(plan)? {
        let found = match hashes.entry(plansmith_files::canonicalize(&path)?) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(plansmith_files::sha256_file(&path)?),
        };
        if found != record.sha256 {
            let reason = format!("has the SHA-256 {found} at {}; the plan was built from one of {}", path.display(), record.sha256);
            return Err(Error::Data { plan: plan.to_owned(), file: record.name.clone(), reason });
        }
        checked.push(format!("weights: {} of {} bytes, SHA-256 of the manifest", record.name, record.bytes));
    }
    Ok(PlanCheck { plan: plan.to_owned(), manifest, checked, time: start.elapsed() })
}

fn list(header: &PlanHeader) -> String {
    header.architectures().iter().map(|architecture| architecture.name()).collect::<Vec<_>>().join(", ")
}

/// Under which name the worker of this process id leaves a plan in the folder for it, until it is whole.
pub fn partial_name(worker: u32) -> String {
    format!(".plansmith-plan-{worker}.partial")
}
