//! Whether what a build will write fits, before it begins.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use plansmith_lowering::{WeightFiles, WeightsMode};

use crate::Error;
use crate::fanout::folder_of_part;
use crate::stages::{BUNDLE, Stages};
use crate::store::Store;

/// Graphs, reports and manifests.
const SMALL: u64 = 16 << 20;
/// Of a plan beside its weights, in percent.
const PLAN_PERCENT: u64 = 106;

/// Refuses a build into `folder` that its file system has no room for. What is done already, and what a file system can share, takes none.
/// `twice` says whether graphs are laid out a second time, with their weights.
pub(crate) fn check(
    folder: &Path,
    source: &Path,
    (stages, twice): (&Stages, bool),
    store: &Store,
    wanted: &BTreeSet<String>,
) -> Result<(), Error> {
    let shares = plansmith_files::can_reflink(source, folder);
    let mut needed = SMALL;
    for stage in &stages.exports {
        if wanted.contains(&stage.name()) && !store.has(&stage.name(), stage.key) && stage.mode != WeightsMode::Shared {
            let copied = matches!(stage.lowered.table.files, WeightFiles::Source(_));
            needed += if copied && shares { 0 } else { stage.bytes };
        }
    }
    if twice && wanted.contains(BUNDLE) && !plansmith_files::can_reflink(folder, folder) {
        needed += stages.exports.iter().map(|stage| stage.bytes).sum::<u64>();
    }
    for stage in &stages.plans {
        let name = stage.name(&stages.exports);
        if wanted.contains(&name) && !store.has(&name, stage.key) {
            needed += stages.exports[stage.from].bytes / 100 * PLAN_PERCENT;
        }
    }
    room(folder, needed)
}

/// Refuses to copy `bytes` of `parts` into `folder` where there is no room for them; what the file system can share takes none.
pub(crate) fn for_parts(folder: &Path, parts: &[PathBuf], bytes: u64) -> Result<(), Error> {
    if parts.iter().all(|part| plansmith_files::can_reflink(&folder_of_part(part), folder)) {
        return Ok(());
    }
    room(folder, SMALL + bytes)
}

fn room(folder: &Path, needed: u64) -> Result<(), Error> {
    let free = plansmith_files::free_space(folder)?;
    if needed > free { Err(Error::Space { path: folder.to_owned(), needed, free }) } else { Ok(()) }
}

/// Bytes of a stage's weights.
pub(crate) fn weights(files: &WeightFiles, source: &plansmith_checkpoint::Checkpoint) -> u64 {
    match files {
        WeightFiles::Source(files) => files.iter().map(|file| source.files()[file.index].size).sum(),
        WeightFiles::Converted { layout, .. } => layout.size,
    }
}
