//! One pipeline on many machines: stages alone, and partial bundles joined.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::space;
use crate::stages::Stages;
use crate::store::Store;

/// The stages that `names` stand for, with the exports that they need.
///
/// # Errors
/// No stage is called so, or none that stands alone is.
pub(crate) fn needed(stages: &Stages, names: &[String]) -> Result<BTreeSet<String>, Error> {
    let exports = &stages.exports;
    // Weights are written by the first export that has them.
    let writer = |index: usize| exports.iter().position(|stage| stage.weights == exports[index].weights).unwrap_or(index);
    let with_writer = |index: usize| [exports[writer(index)].name(), exports[index].name()];
    let mut needed = BTreeSet::new();
    for name in names {
        if let Some(index) = exports.iter().position(|stage| stage.name() == *name) {
            needed.extend(with_writer(index));
        } else if let Some(plan) = stages.plans.iter().find(|stage| stage.name(exports) == *name) {
            needed.extend(with_writer(plan.from));
            needed.insert(name.clone());
        } else {
            let known = cells(stages);
            return Err(Error::UnknownStage { name: name.clone(), known });
        }
    }
    Ok(needed)
}

/// The stages that can be done apart from one another.
pub(crate) fn cells(stages: &Stages) -> Vec<String> {
    stages.names().into_iter().filter(|name| name.contains(':')).collect()
}

/// Takes over what `parts` have done, every file by its hash, and demands that nothing is left to do but to verify.
///
/// # Errors
/// A part is none, was changed, or they do not have all stages.
pub(crate) fn join(store: &mut Store, stages: &Stages, parts: &[PathBuf], progress: &mut dyn FnMut(u64, u64)) -> Result<(), Error> {
    let (mut done, total) = (0, store.missing_of(parts)?);
    space::for_parts(store.folder(), parts, total)?;
    for part in parts {
        store.adopt(part, &mut |bytes| {
            done += bytes;
            progress(done, total);
        })?;
    }
    let exports = stages.exports.iter().map(|stage| (stage.name(), stage.key));
    let plans = stages.plans.iter().map(|stage| (stage.name(&stages.exports), stage.key));
    let missing: Vec<String> = exports.chain(plans).filter(|(name, key)| !store.has(name, *key)).map(|(name, _)| name).collect();
    if missing.is_empty() { Ok(()) } else { Err(Error::MissingStages { missing }) }
}

/// The folder of a part, as it was named or with `.partial`, which `build` adds.
pub(crate) fn folder_of_part(part: &Path) -> PathBuf {
    let mut with = part.as_os_str().to_owned();
    with.push(".partial");
    let with = PathBuf::from(with);
    if plansmith_files::is_dir(&with) { with } else { part.to_owned() }
}
