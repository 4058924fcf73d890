//! Plans by what determines their bytes, in a folder that several processes and machines may share.
//!
//! An entry is a folder `ab/ab12…` that holds the plan, its manifest and what it took to build. It appears whole, by one rename, and is
//! never changed: whoever comes second with the same key leaves the first one's. An entry that is not what its name and its manifest say
//! is removed and built again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plansmith_files::{Digest, Hasher, TempFolder, copy_file};
use serde::{Deserialize, Serialize};

use crate::{
    BuildReport, BuildRequest, CostRecord, Error, FileRecord, Flavor, PlanManifest, Prepared, Reproducibility, Weights, WorkerPaths,
    check_plan, manifest_path,
};

/// Changes with the layout of entries and with what is in a key.
const LAYOUT: &str = "plans-1";
const PLAN: &str = "model.plan";
const EFFORT: &str = "effort.json";

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

/// What a build took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Effort {
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
        // A plan without its weights is nothing by itself.
        if prepared.order.weights == Weights::Stripped || !plansmith_files::is_dir(&entry) {
            return Ok(None);
        }
        let Some((manifest, effort)) = whole(&entry, prepared) else {
            self.discard(&entry)?;
            return Ok(None);
        };
        if request.prove_reproducible && matches!(manifest.reproducible, Reproducibility::NotTried { .. }) {
            return Ok(None);
        }
        // What says nothing about the bytes is as this request has it.
        let (source, profiles) = (request.source.clone(), prepared.profiles.clone());
        let cost = Some(CostRecord::new(request.profiles_as, prepared.weight_bytes(), manifest.plan.bytes));
        let manifest = PlanManifest { source, profiles, cost, ..manifest };
        let manifest_path = manifest_path(&request.output);
        if let Some(folder) = request.output.parent() {
            plansmith_files::create_dir_all(folder)?;
        }
        manifest.write(&manifest_path)?;
        match copy_file(&entry.join(PLAN), &request.output) {
            Ok(_) => {}
            // Somebody removed it meanwhile.
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        Ok(Some(BuildReport {
            plan: request.output.clone(),
            manifest_path,
            manifest,
            parse: Duration::from_millis(effort.parse_ms),
            build: Duration::from_millis(effort.build_ms),
            peak_bytes: effort.peak_bytes,
            cached: true,
        }))
    }

    /// Keeps a plan that was built, unless somebody did so before.
    ///
    /// # Errors
    /// [`Error::File`]: the folder cannot be written to.
    pub(crate) fn keep(&self, key: Digest, report: &BuildReport) -> Result<(), Error> {
        if report.manifest.weights == Weights::Stripped {
            return Ok(());
        }
        let entry = self.entry(key);
        if let Some(folder) = entry.parent() {
            plansmith_files::create_dir_all(folder)?;
        }
        let new = TempFolder::beside(&entry)?;
        let plan = new.path().join(PLAN);
        copy_file(&report.plan, &plan)?;
        report.manifest.write(&manifest_path(&plan))?;
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (parse_ms, build_ms) = (milliseconds(report.parse), milliseconds(report.build));
        write_json(&new.path().join(EFFORT), &Effort { parse_ms, build_ms, peak_bytes: report.peak_bytes })?;
        match plansmith_files::rename(new.path(), &entry) {
            Ok(()) => {
                new.keep();
                Ok(())
            }
            // A folder that is not empty is not replaced: somebody was faster, and `new` goes.
            Err(_) if plansmith_files::is_dir(&entry) => Ok(()),
            Err(error) => Err(error.into()),
        }
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

/// An entry whose plan is what its manifest says, and whose manifest is what was asked for.
fn whole(entry: &Path, prepared: &Prepared) -> Option<(PlanManifest, Effort)> {
    let plan = entry.join(PLAN);
    let manifest = check_plan(&plan).ok()?.manifest;
    let effort = serde_json::from_slice(&plansmith_files::read(&entry.join(EFFORT)).ok()?).ok()?;
    let mut architectures = prepared.order.architectures.clone();
    architectures.sort_unstable();
    let shapes = manifest.profiles.iter().map(|record| &record.inputs).eq(&prepared.order.profiles);
    (manifest.onnx == prepared.onnx && manifest.architectures == architectures && shapes).then_some((manifest, effort))
}
