//! Stages that are done: in the folder being filled, and in the bundle that is there already.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plansmith_files::{Digest, Hasher, copy_file, create_dir_all, for_each_piece, sha256_file, write_atomic};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::fanout::folder_of_part;
use crate::manifest::{FileRecord, Manifest};

/// Where stages that are done are remembered while the folder is being filled.
pub(crate) const RECORD_NAME: &str = ".stages.json";

/// What a stage wrote, by path within the bundle.
pub(crate) type StageFiles = BTreeMap<String, FileRecord>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Done {
    key: Digest,
    files: StageFiles,
}

/// The folder being filled, and what can be taken over from the last bundle.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    done: BTreeMap<String, Done>,
    last: Option<(PathBuf, Manifest)>,
    /// Files of the folder whose bytes this run wrote or hashed.
    known: BTreeMap<String, FileRecord>,
}

impl Store {
    /// Opens the folder being filled, as an interrupted run may have left it; `last` is the bundle that is there, if it is whole enough
    /// to have a manifest that matches itself.
    pub(crate) fn open(folder: &Path, last: &Path) -> Self {
        let record = folder.join(RECORD_NAME);
        // A record that cannot be read is one of an interrupted run: everything is then done anew.
        let done = plansmith_files::read(&record).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let last = Manifest::read(last).ok().map(|(manifest, _)| (last.to_owned(), manifest));
        Self { folder: folder.to_owned(), done, last, known: BTreeMap::new() }
    }

    /// Makes the folder, and its record, which says whose it is.
    pub(crate) fn create(&self) -> Result<(), Error> {
        create_dir_all(&self.folder)?;
        self.write()
    }

    /// The files of a stage with this key, put into the folder if they are in the last bundle; `None` if it must run.
    pub(crate) fn reuse(&mut self, name: &str, key: Digest) -> Result<Option<StageFiles>, Error> {
        if let Some(files) = self.done.get(name).filter(|done| done.key == key).map(|done| done.files.clone())
            && self.is_whole(&files)?
        {
            return Ok(Some(files));
        }
        let Some(files) = self.in_last(key) else { return Ok(None) };
        let Some((bundle, _)) = &self.last else { return Ok(None) };
        let bundle = bundle.clone();
        for (path, record) in &files {
            let one = BTreeMap::from([(path.clone(), *record)]);
            if self.is_whole(&one)? {
                continue;
            }
            let (from, to) = (bundle.join(path), self.folder.join(path));
            if let Some(parent) = to.parent() {
                create_dir_all(parent)?;
            }
            copy_file(&from, &to)?;
            // A bundle may have been damaged since: then the stage runs.
            if !self.is_whole(&one)? {
                plansmith_files::remove_file(&to)?;
                return Ok(None);
            }
        }
        self.finish(name, key, files.clone())?;
        Ok(Some(files))
    }

    /// Whether files of the folder are those of the record, by their bytes: a run that was stopped may be long ago. Each is hashed once.
    fn is_whole(&mut self, files: &StageFiles) -> Result<bool, Error> {
        for (path, record) in files {
            if self.known.get(path) == Some(record) {
                continue;
            }
            let file = self.folder.join(path);
            if !same_size(&file, record) || sha256_file(&file)? != record.sha256 {
                return Ok(false);
            }
            self.known.insert(path.clone(), *record);
        }
        Ok(true)
    }

    /// The folder being filled.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes of `parts` that [`Store::adopt`] would take, one after the other.
    pub(crate) fn missing_of(&self, parts: &[PathBuf]) -> Result<u64, Error> {
        let mut missing: BTreeMap<(String, Digest), u64> = BTreeMap::new();
        for part in parts {
            let (_, _, done) = read_part(part)?;
            for (name, stage) in done.into_iter().filter(|(name, stage)| !self.has(name, stage.key)) {
                missing.insert((name, stage.key), stage.files.values().map(|record| record.bytes).sum());
            }
        }
        Ok(missing.values().sum())
    }

    /// Takes over every stage that another run has done in `part`, a folder that `build --only` filled. Its files are hashed; `progress` is
    /// told of each piece.
    pub(crate) fn adopt(&mut self, part: &Path, progress: &mut dyn FnMut(u64)) -> Result<(), Error> {
        let (part, path, done) = read_part(part)?;
        let wrong = |problem: String| Error::Manifest { path: path.clone(), problem };
        for (name, stage) in done {
            if self.has(&name, stage.key) {
                continue;
            }
            for (file, record) in &stage.files {
                if !is_within(file) {
                    return Err(wrong(format!("names `{file}`, which is outside of the part")));
                }
                let (from, to) = (part.join(file), self.folder.join(file));
                let mut source = plansmith_files::open_regular(&from)?;
                let bytes = plansmith_files::metadata(&from)?.len();
                if bytes != record.bytes {
                    let problem = format!("has {bytes} bytes; its record says {}", record.bytes);
                    return Err(Error::Bundle { path: from, problem });
                }
                let mut hasher = Hasher::default();
                for_each_piece(&mut source, &from, |piece| {
                    hasher.update(piece);
                    progress(piece.len() as u64);
                })?;
                let found = hasher.finish();
                if found != record.sha256 {
                    let problem = format!("has the SHA-256 {found}; its record says {}", record.sha256);
                    return Err(Error::Bundle { path: from, problem });
                }
                create_dir_all(to.parent().unwrap_or(&self.folder))?;
                copy_file(&from, &to)?;
            }
            self.finish(&name, stage.key, stage.files)?;
        }
        Ok(())
    }

    /// Whether a stage with this key need not run.
    pub(crate) fn has(&self, name: &str, key: Digest) -> bool {
        self.place(name, key).is_some()
    }

    /// The folder that has the files of a stage with this key.
    pub(crate) fn place(&self, name: &str, key: Digest) -> Option<&Path> {
        if self.done.get(name).is_some_and(|done| done.key == key && self.is_there(&done.files)) {
            return Some(&self.folder);
        }
        self.in_last(key)?;
        self.last.as_ref().map(|(bundle, _)| bundle.as_path())
    }

    /// Remembers that a stage is done.
    pub(crate) fn finish(&mut self, name: &str, key: Digest, files: StageFiles) -> Result<(), Error> {
        self.known.extend(files.clone());
        self.done.insert(name.to_owned(), Done { key, files });
        self.write()
    }

    fn write(&self) -> Result<(), Error> {
        let text = serde_json::to_vec(&self.done);
        let text = text.map_err(|error| Error::Manifest { path: self.folder.join(RECORD_NAME), problem: error.to_string() })?;
        Ok(write_atomic(&self.folder.join(RECORD_NAME), &text)?)
    }

    /// Removes what no stage of this run wrote.
    pub(crate) fn clear(&self, keep: &StageFiles) -> Result<(), Error> {
        for (name, path) in crate::manifest::files_below(&self.folder)? {
            if name != RECORD_NAME && !keep.contains_key(&name) {
                plansmith_files::remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// Removes the record: what is left, with its manifest, is the bundle.
    pub(crate) fn close(&self) -> Result<(), Error> {
        Ok(plansmith_files::remove_file(&self.folder.join(RECORD_NAME))?)
    }

    fn is_there(&self, files: &StageFiles) -> bool {
        files.iter().all(|(path, record)| same_size(&self.folder.join(path), record))
    }

    /// The files in the last bundle of the graph or plan with this key, where they are as large as its manifest says.
    fn in_last(&self, key: Digest) -> Option<StageFiles> {
        let (bundle, manifest) = self.last.as_ref()?;
        let paths: Vec<String> = match manifest.graphs.iter().find(|graph| graph.recipe == key) {
            Some(graph) => std::iter::once(&graph.path).chain(&graph.weights).cloned().collect(),
            None => {
                let plan = manifest.plans.iter().find(|plan| plan.recipe == key)?;
                let beside = Path::new(&plan.path).with_extension("json");
                vec![plan.path.clone(), beside.to_string_lossy().into_owned()]
            }
        };
        let record = |path: String| {
            let record = *manifest.files.get(&path)?;
            same_size(&bundle.join(&path), &record).then_some((path, record))
        };
        paths.into_iter().map(record).collect()
    }
}

/// The folder of a part, its record, and what that says is done.
fn read_part(part: &Path) -> Result<(PathBuf, PathBuf, BTreeMap<String, Done>), Error> {
    let part = folder_of_part(part);
    let path = part.join(RECORD_NAME);
    let done = serde_json::from_slice(&plansmith_files::read(&path)?)
        .map_err(|error| Error::Manifest { path: path.clone(), problem: format!("is no record of stages: {error}") })?;
    Ok((part, path, done))
}

/// Whether a path of a record stays below the folder that it is of.
fn is_within(path: &str) -> bool {
    Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

fn same_size(path: &Path, record: &FileRecord) -> bool {
    plansmith_files::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == record.bytes)
}
