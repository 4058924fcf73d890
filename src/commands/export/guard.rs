//! What an export must leave as it is: bundles, other checkpoints, and weights that other graphs compute with.

use std::path::{Path, PathBuf};

use plansmith_checkpoint::{INDEX_NAME, SINGLE_NAME};
use plansmith_files::{canonicalize, is_file, sha256_file};
use plansmith_lowering::{Lowered, Source, WeightFiles};

use crate::args::{Export, LayoutFlag};
use crate::exit::Failure;
use crate::replace::outside_of_builds;

/// Refuses an output that is a bundle's, or whose config.json is that of a checkpoint.
pub(super) fn check_output(args: &Export) -> Result<(), Failure> {
    outside_of_builds(&args.output)?;
    let root = &args.output;
    let weights = [SINGLE_NAME, INDEX_NAME, "pytorch_model.bin", "pytorch_model.bin.index.json"];
    let weights = weights.iter().find(|name| is_file(&root.join(name)));
    if args.layout == LayoutFlag::Clients && is_file(&root.join("config.json")) && (weights.is_some() || is_same(root, &args.checkpoint)) {
        let root = root.display();
        return Err(Failure::new(format!("{root} holds a checkpoint, whose config.json --layout clients would replace"))
            .hint("name another folder: everything that clients read is written there"));
    }
    Ok(())
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((canonicalize(one), canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

/// Refuses to put other bytes under a name that another graph in `folder` reads its weights from. `graph` is what will be written.
pub(super) fn check_readers(source: &Source, lowered: &Lowered, folder: &Path, graph: &str) -> Result<(), Failure> {
    let WeightFiles::Source(files) = &lowered.table.files else { return Ok(()) };
    for file in files {
        let (from, to) = (&source.checkpoint.files()[file.index].path, folder.join(&file.name));
        if !is_file(&to) || is_same(from, &to) {
            continue;
        }
        if let Some(reader) = reader(&to, graph)?
            && sha256_file(from)? != sha256_file(&to)?
        {
            return Err(read_by(&to, &reader));
        }
    }
    Ok(())
}

/// The weights that a conversion would replace and another graph reads, and that graph.
pub(super) fn read_converted(lowered: &Lowered, folder: &Path, graph: &str) -> Result<Option<(PathBuf, PathBuf)>, Failure> {
    let WeightFiles::Converted { name, .. } = &lowered.table.files else { return Ok(None) };
    let path = folder.join(name);
    if !is_file(&path) {
        return Ok(None);
    }
    Ok(reader(&path, graph)?.map(|reader| (path, reader)))
}

pub(super) fn read_by(weights: &Path, graph: &Path) -> Failure {
    let (weights, graph) = (weights.display(), graph.display());
    Failure::new(format!("{weights} would be replaced by other weights, and {graph} computes with it")).hint("name another folder")
}

/// A graph beside `data`, other than `graph`, that reads it. One that cannot be read may.
fn reader(data: &Path, graph: &str) -> Result<Option<PathBuf>, Failure> {
    let folder = data.parent().unwrap_or(Path::new("."));
    let name = data.file_name().unwrap_or_default();
    let others = plansmith_files::list(folder)?.into_iter().filter(|path| {
        path.extension().is_some_and(|extension| extension == "onnx") && path.file_name().is_some_and(|name| name != graph) && is_file(path)
    });
    let reads = |path: &PathBuf| {
        let files = plansmith_onnx::load(path).and_then(|model| plansmith_onnx::external_files(&model));
        files.map_or(true, |files| files.iter().any(|file| name == file.as_str()))
    };
    Ok(others.into_iter().find(reads))
}
