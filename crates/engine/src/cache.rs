//! Plans by what determines their bytes, in a folder that several processes and machines may share.
//!
//! An entry is a folder `ab/ab12…` that holds the plan, its manifest, and a record of its key, of the manifest's digest and of what it took to
//! build. It appears whole, by one rename, and is never changed: whoever comes second with the same key leaves the first one's, unless only the
//! second was proved reproducible. An entry that is not what its name, its record and its manifest say is removed and built again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plansmith_files::{Digest, Hasher, NewFolders, TempFolder, copy_file};
use serde::{Deserialize, Serialize};

use crate::weights::data_folder;
use crate::{
    BuildReport, BuildRequest, CostRecord, Error, FileRecord, Flavor, PlanManifest, Prepared, Reproducibility, WorkerPaths, manifest_path,
    pair,
};

/// Changes with the layout of entries and with what is in a key.
const LAYOUT: &str = "plans-2";
const PLAN: &str = "model.plan";
const RECORD: &str = "record.json";

/// A folder of plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanCache {
    folder: PathBuf,
}

/// The programs that build plans, by content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tools {
    flavor: Flavor,
    /// Core, parser and worker.
    files: [FileRecord; 3],
}

/// What an entry is, and what its build took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    key: Digest,
    /// Of the manifest's text, which names the plan's.
    manifest: Digest,
    parse_ms: u64,
    build_ms: u64,
    peak_bytes: u64,
}

/// Largest size of a worker that built from one graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Peak {
    peak_bytes: u64,
}

impl Tools {
    /// Hashes the libraries and the worker.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(crate) fn of(paths: &WorkerPaths) -> Result<Self, Error> {
        let [core, parser] = paths.flavor.libraries().map(|name| FileRecord::of(&paths.libraries.join(name)));
        Ok(Self { flavor: paths.flavor, files: [core?, parser?, FileRecord::of(&paths.worker)?] })
    }
}

impl PlanCache {
    /// In this folder, which is made when something is kept.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.join(LAYOUT) }
    }

    /// Where plans are kept unless somebody says otherwise: `$PLANSMITH_PLAN_CACHE`, else `plans` in the cache folder; `None` where that
    /// variable is `off` or no folder is known.
    pub fn usual() -> Option<Self> {
        match std::env::var_os("PLANSMITH_PLAN_CACHE").filter(|value| !value.is_empty()) {
            Some(value) if value == "off" => None,
            Some(folder) => Some(Self::at(Path::new(&folder))),
            None => plansmith_files::cache_folder().map(|folder| Self::at(&folder.join("plans"))),
        }
    }

    /// What determines the bytes of a plan: the graph and its data by name and content, all that the worker is asked for, and the programs.
    pub(crate) fn key(prepared: &Prepared, tools: &Tools) -> Result<Digest, Error> {
        let mut hasher = Hasher::default();
        hasher.field(LAYOUT.as_bytes());
        hasher.field(tools.flavor.name().as_bytes());
        for file in std::iter::once(&prepared.onnx.graph).chain(&prepared.onnx.data) {
            hasher.field(file.name.as_bytes());
            hasher.field(file.sha256.to_string().as_bytes());
        }
        let order = serde_json::to_vec(&prepared.order).map_err(|error| Error::Protocol(format!("an order cannot be written: {error}")))?;
        hasher.field(&order);
        // Where a library or the worker lies does not matter.
        tools.files.iter().for_each(|file| hasher.field(file.sha256.to_string().as_bytes()));
        Ok(hasher.finish())
    }

    fn entry(&self, key: Digest) -> PathBuf {
        let name = key.to_string();
        self.folder.join(&name[..2]).join(name)
    }

    /// Whether there is an entry; what it holds is not looked at.
    pub(crate) fn has(&self, key: Digest) -> bool {
        plansmith_files::is_file(&self.entry(key).join(PLAN))
    }

    /// Puts the plan with this key, and its manifest, where `request` wants them; `None` where there is none, or none that is whole, which is
    /// then gone.
    ///
    /// # Errors
    /// The plan cannot be written where it is to be.
    pub(crate) fn take(&self, key: Digest, request: &BuildRequest, prepared: &Prepared) -> Result<Option<BuildReport>, Error> {
        let entry = self.entry(key);
        if !plansmith_files::is_dir(&entry) {
            return Ok(None);
        }
        let Some((manifest, record)) = whole(&entry, key) else {
            // Where it cannot be removed, what is built in its place is not kept, which is told then.
            let _ = self.discard(&entry);
            return Ok(None);
        };
        if request.prove_reproducible && !manifest.is_proved() {
            return Ok(None);
        }
        let folder = plansmith_files::folder_of(&request.output);
        let _new = NewFolders::create([folder])?;
        let beside = TempFolder::beside(&request.output)?;
        let plan = beside.path().join(PLAN);
        match copy_file(&entry.join(PLAN), &plan) {
            Ok(_) => {}
            // Somebody removed it meanwhile.
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // What says nothing about the bytes is as this request has it.
        let (source, profiles) = (request.source.clone(), prepared.profiles.clone());
        let cost = Some(CostRecord::new(request.profiles_as, prepared.weight_bytes(), manifest.plan.bytes));
        let data_folder = data_folder(request.weights, folder, &prepared.model)?;
        let manifest = PlanManifest { source, profiles, cost, data_folder, ..manifest };
        let manifest_path = pair::place(&plan, &manifest, &request.output)?;
        Ok(Some(BuildReport {
            plan: request.output.clone(),
            manifest_path,
            manifest,
            parse: Duration::from_millis(record.parse_ms),
            build: Duration::from_millis(record.build_ms),
            peak_bytes: record.peak_bytes,
            cached: true,
        }))
    }

    /// Keeps a plan that was built, unless somebody did so before, or a second build gave other bytes.
    ///
    /// # Errors
    /// [`Error::File`]: the folder cannot be written to.
    pub(crate) fn keep(&self, key: Digest, report: &BuildReport) -> Result<(), Error> {
        if matches!(report.manifest.reproducible, Reproducibility::Differs { .. }) {
            return Ok(());
        }
        let entry = self.entry(key);
        let new = TempFolder::beside(&entry)?;
        let plan = new.path().join(PLAN);
        copy_file(&report.plan, &plan)?;
        let text = report.manifest.text(&plan)?;
        plansmith_files::write_atomic(&manifest_path(&plan), text.as_bytes())?;
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (parse_ms, build_ms) = (milliseconds(report.parse), milliseconds(report.build));
        let manifest = Digest::of(text.as_bytes());
        write_json(&new.path().join(RECORD), &Record { key, manifest, parse_ms, build_ms, peak_bytes: report.peak_bytes })?;
        match plansmith_files::rename(new.path(), &entry) {
            Ok(()) => {}
            // A folder that is not empty is not replaced: somebody was faster.
            Err(_) if plansmith_files::is_dir(&entry) => {
                if whole(&entry, key).is_some_and(|(known, _)| known.is_proved() || !report.manifest.is_proved()) {
                    return Ok(());
                }
                self.discard(&entry)?;
                plansmith_files::rename(new.path(), &entry)?;
            }
            Err(error) => return Err(error.into()),
        }
        new.keep();
        Ok(())
    }

    /// Removes an entry so that nobody sees half of it.
    fn discard(&self, entry: &Path) -> Result<(), Error> {
        let away = TempFolder::beside(entry)?;
        let moved = away.path().join("entry");
        match plansmith_files::rename(entry, &moved) {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The largest size of a worker that built from this graph, if any did.
    pub(crate) fn peak(&self, prepared: &Prepared) -> Option<u64> {
        let bytes = plansmith_files::read(&self.peak_path(prepared)).ok()?;
        serde_json::from_slice::<Peak>(&bytes).ok().map(|peak| peak.peak_bytes)
    }

    /// Remembers how large a worker became; of two that do so at once one may be forgotten.
    pub(crate) fn remember_peak(&self, prepared: &Prepared, peak_bytes: u64) -> Result<(), Error> {
        if self.peak(prepared).is_some_and(|known| known >= peak_bytes) {
            return Ok(());
        }
        let path = self.peak_path(prepared);
        if let Some(folder) = path.parent() {
            plansmith_files::create_dir_all(folder)?;
        }
        write_json(&path, &Peak { peak_bytes })
    }

    fn peak_path(&self, prepared: &Prepared) -> PathBuf {
        self.folder.join("peaks").join(format!("{}-{}.json", prepared.onnx.graph.sha256, prepared.profiles.len()))
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_vec(value).map_err(|error| Error::Protocol(format!("`{}` cannot be written: {error}", path.display())))?;
    Ok(plansmith_files::write_atomic(path, &text)?)
}

/// An entry whose record is of this key, its manifest that of the record, and its plan that of the manifest.
fn whole(entry: &Path, key: Digest) -> Option<(PlanManifest, Record)> {
    let plan = entry.join(PLAN);
    let record: Record = serde_json::from_slice(&plansmith_files::read(&entry.join(RECORD)).ok()?).ok()?;
    let text = plansmith_files::read(&manifest_path(&plan)).ok().filter(|text| Digest::of(text) == record.manifest)?;
    let manifest: PlanManifest = serde_json::from_slice(&text).ok()?;
    let same = plansmith_files::metadata(&plan).ok()?.len() == manifest.plan.bytes;
    let same = same && record.key == key && plansmith_files::sha256_file(&plan).ok()? == manifest.plan.sha256;
    same.then_some((manifest, record))
}
