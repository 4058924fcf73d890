//! From a source to files: the graph, and the weights where they cannot stay where they are.

use std::path::{Path, PathBuf};

use plansmith_checkpoint::{INDEX_NAME, Index, write_safetensors};
use plansmith_files::{CopyMethod, Digest, canonicalize, copy_file, create_dir_all, is_file, sha256_file, write_atomic};
use plansmith_graph::Metadata;
use plansmith_onnx::encode;
use serde::Serialize;

use crate::lower::{Lowered, lower};
use crate::weights::{SourceFile, WeightFiles};
use crate::{Error, Float, Source, Target};

/// Whether weight files are used where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightsMode {
    /// In place where the folder is the checkpoint's own and the stored bytes serve; else copied or converted.
    Auto,
    /// In place or not at all.
    InPlace,
    /// Always files of their own: refused in the checkpoint's own folder unless they are converted.
    Copy,
    /// Another graph of the same run has put the files into the folder already.
    Shared,
}

/// How a weight file came to be where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// The checkpoint's own file.
    InPlace,
    /// Shares its blocks with the checkpoint's file.
    Reflinked,
    /// A byte-identical copy.
    Copied,
    /// Written anew with another dtype.
    Converted,
}

/// A weight file that the graph points into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExportedFile {
    /// Where it is.
    #[serde(serialize_with = "plansmith_files::shown")]
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// How it came there.
    pub placement: Placement,
    /// Known where it was written anew.
    pub sha256: Option<Digest>,
}

/// What an export wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// The graph.
    #[serde(serialize_with = "plansmith_files::shown")]
    pub graph: PathBuf,
    /// Its size.
    pub graph_bytes: u64,
    /// SHA-256 of the graph without metadata: what determines plans and verdicts.
    pub graph_digest: Digest,
    /// The files that hold the weights.
    pub weights: Vec<ExportedFile>,
    /// How most weights are stored.
    pub storage: Float,
    /// What the graph computes in.
    pub compute: Float,
    /// ONNX operator set.
    pub opset: u32,
    /// Whether a runtime may write keys and values into the cache that it was given.
    pub shares_buffer: bool,
    /// Where the graph is not what the dialect promises, and why.
    pub notes: Vec<String>,
    /// Slots a row of a static cache; `None` where the cache grows.
    pub slots: Option<u64>,
}

/// The file name of a graph under `target`: `model.onnx`, with the storage dtype where it was converted, and `_static` where its cache is.
pub fn graph_name(lowered: &Lowered) -> String {
    let kv = if lowered.slots.is_some() { "_static" } else { "" };
    match &lowered.table.files {
        WeightFiles::Source(_) => format!("model{kv}.onnx"),
        WeightFiles::Converted { .. } => format!("model_{}{kv}.onnx", lowered.table.storage),
    }
}

/// Writes graph and weights of `source` into `folder`; the graph last, so that where it stands all it needs stands.
///
/// `progress` is called with how many of [`WeightFiles::read_bytes`] are converted or copied so far, from several threads. `name` overrides [`graph_name`].
///
/// # Errors
/// The target does not fit the source, or a file cannot be read or written; nothing is then left half-written.
pub fn export(
    source: &Source,
    target: &Target,
    mode: WeightsMode,
    folder: &Path,
    name: Option<&str>,
    version: &str,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Exported, Error> {
    let lowered = lower(source, target)?;
    create_dir_all(folder)?;
    let weights = place(source, &lowered, mode, folder, progress)?;
    let bare = lowered.graph.finish(&Metadata::default())?;
    let graph_digest = Digest::of(&encode(&bare));
    let model = lowered.graph.finish(&lowered.metadata(source, target, version))?;
    let bytes = encode(&model);
    let graph = folder.join(name.map_or_else(|| graph_name(&lowered), str::to_owned));
    write_atomic(&graph, &bytes)?;
    Ok(Exported {
        graph,
        graph_bytes: bytes.len() as u64,
        graph_digest,
        weights,
        storage: lowered.table.storage,
        compute: lowered.compute,
        opset: lowered.opset,
        shares_buffer: lowered.shares_buffer,
        notes: lowered.notes,
        slots: lowered.slots,
    })
}

fn place(
    source: &Source,
    lowered: &Lowered,
    mode: WeightsMode,
    folder: &Path,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<ExportedFile>, Error> {
    let files = match &lowered.table.files {
        WeightFiles::Converted { .. } if mode == WeightsMode::InPlace => {
            return Err(Error::NotInPlace(format!("they are converted to {}", lowered.table.storage)));
        }
        WeightFiles::Converted { name, plan, .. } => {
            let path = folder.join(name);
            if mode == WeightsMode::Shared {
                return Ok(Vec::new());
            }
            if is_file(&path) && is_shard(folder, name) {
                return Err(Error::OtherCheckpoint { path });
            }
            let written = write_safetensors(&path, plan, &source.checkpoint, progress)?;
            let (bytes, sha256) = (written.layout.size, Some(written.sha256));
            return Ok(vec![ExportedFile { path, bytes, placement: Placement::Converted, sha256 }]);
        }
        WeightFiles::Source(files) => files,
    };
    if mode == WeightsMode::Shared {
        return Ok(Vec::new());
    }
    let at_home = canonicalize(folder)? == canonicalize(source.checkpoint.dir())?;
    let mut exported = Vec::new();
    for SourceFile { index, name } in files {
        let file = &source.checkpoint.files()[*index];
        let path = folder.join(name);
        let placement = match (at_home && *name == file.name, mode) {
            (true, WeightsMode::Copy) => {
                return Err(Error::NotInPlace(format!("`{}` would be copied onto itself: give another folder", file.name)));
            }
            (true, WeightsMode::Auto) if file.is_link => {
                let problem = format!("`{}` is a symbolic link, which ONNX loaders refuse: give another folder", file.name);
                return Err(Error::NotInPlace(problem));
            }
            (true, WeightsMode::InPlace) if file.is_link => {
                return Err(Error::NotInPlace(format!("`{}` is a symbolic link, which ONNX loaders refuse", file.name)));
            }
            (true, _) => Placement::InPlace,
            (false, WeightsMode::InPlace) if at_home => return Err(Error::NotInPlace(format!("they are to be called `{name}`"))),
            (false, WeightsMode::InPlace) => {
                let problem = format!("`{}` is not the checkpoint's folder `{}`", folder.display(), source.checkpoint.dir().display());
                return Err(Error::NotInPlace(problem));
            }
            (false, _) => copy(&file.path, &path)?,
        };
        exported.push(ExportedFile { path, bytes: file.size, placement, sha256: None });
        progress(exported.iter().map(|file| file.bytes).sum());
    }
    Ok(exported)
}

/// Whether the index of a checkpoint in `folder` names `file`; one that cannot be read may.
fn is_shard(folder: &Path, file: &str) -> bool {
    let index = folder.join(INDEX_NAME);
    is_file(&index)
        && match plansmith_files::read(&index).map(|text| Index::parse(&text)) {
            Ok(Ok(index)) => index.files().iter().any(|(name, _)| *name == file),
            _ => true,
        }
}

/// Copies a weight file, but not over one of another checkpoint.
fn copy(from: &Path, to: &Path) -> Result<Placement, Error> {
    if is_file(to) && is_file(&to.with_file_name("config.json")) {
        if sha256_file(from)? != sha256_file(to)? {
            return Err(Error::OtherCheckpoint { path: to.to_owned() });
        }
        return Ok(Placement::Copied);
    }
    Ok(match copy_file(from, to)? {
        CopyMethod::Reflink => Placement::Reflinked,
        CopyMethod::Copy => Placement::Copied,
    })
}
