//! From a GGUF file to a checkpoint folder.

use std::path::{Path, PathBuf};

use plansmith_files::{TempFolder, replace_folder, sha256_file, write_atomic};
use plansmith_tensor::DType;
use serde::Serialize;

use super::config::{Config, GenerationConfig};
use super::dequant::dequantize;
use super::error::{Error, FolderProblem, Problem};
use super::metadata::Metadata;
use super::model::Model;
use super::tokenizer::Tokenizer;
use super::{Gguf, GgufTensor, rope, tensors, weights};
use crate::inspect_file;

const WEIGHTS: &str = "model.safetensors";
/// All that an import writes.
const WRITTEN: [&str; 6] =
    ["chat_template.jinja", "config.json", "generation_config.json", WEIGHTS, "tokenizer.json", "tokenizer_config.json"];

/// How to import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportOptions {
    /// What the weights are written as: `F32` holds every ggml type but F64 exactly, `BF16` rounds to nearest even.
    pub dtype: DType,
    /// Replace the folder whatever it holds. Else it must be absent, empty, or the result of an import, unedited, and nothing more.
    pub force: bool,
}

/// What an import wrote.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Imported {
    /// The folder.
    #[serde(serialize_with = "plansmith_files::shown")]
    pub folder: PathBuf,
    /// Element type of the weights, by its safetensors name.
    pub dtype: &'static str,
    /// How many tensors were stored as what, the most frequent first.
    pub stored: Vec<(&'static str, usize)>,
    /// Tensors written.
    pub tensors: usize,
    /// Elements of all tensors together.
    pub parameters: u64,
    /// Bytes of `model.safetensors`.
    pub bytes: u64,
    /// Elements that the chosen dtype does not hold exactly: 0 says that nothing was lost since the quantisation.
    pub rounded: u64,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// Whether the file brought a chat template.
    pub chat_template: bool,
    /// What a user should know about how faithful the result is; empty for most files.
    pub notes: Vec<String>,
}

/// Imports the GGUF `file` of llama architecture into the folder `out_dir`, which appears complete or not at all.
///
/// The folder gets config.json, generation_config.json, model.safetensors, tokenizer.json, tokenizer_config.json, and
/// chat_template.jinja where the file has a template. Weights are what transformers 5 makes of the same file, bit for bit in fp32:
/// dequantised as PyPI `gguf` does, the rows of q and k back in the order of the checkpoint, tensors under transformers' names.
/// `progress` gets (bytes written, bytes to write), from several threads.
///
/// # Errors
/// Those of the file system; [`Error::Refused`] where the file is damaged or says something that a llama config cannot;
/// [`Error::Folder`] where `out_dir` holds something that would be lost; [`Error::DType`] for other dtypes than F32 and BF16.
pub fn import(file: &Path, out_dir: &Path, options: &ImportOptions, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Imported, Error> {
    let torch_dtype = match options.dtype {
        DType::F32 => "float32",
        DType::BF16 => "bfloat16",
        other => return Err(Error::DType(other)),
    };
    let gguf = Gguf::open(file)?;
    let refused = |problem: Problem| problem.at(file);
    let model = Model::read(&gguf).map_err(refused)?;
    let mapped = tensors::map(&gguf, &model).map_err(refused)?;
    let metadata = Metadata(&gguf.metadata);
    let factors = gguf.tensors.get(rope::FACTORS).map(|tensor| small_tensor(&gguf, tensor)).transpose()?;
    let rope = rope::read(metadata, model.head_dim, factors.as_deref()).map_err(refused)?;
    let tokenizer = Tokenizer::read(metadata, model.vocab).map_err(refused)?;
    let target = replaceable(file, out_dir, options.force)?;

    let folder = TempFolder::beside(&target)?;
    let config = Config::new(&model, &rope, &tokenizer.special, torch_dtype);
    write_json(folder.path(), "config.json", serde_json::to_vec_pretty(&config))?;
    write_json(folder.path(), "generation_config.json", serde_json::to_vec_pretty(&GenerationConfig::new(&tokenizer.special)))?;
    write_json(folder.path(), "tokenizer.json", tokenizer.json())?;
    write_json(folder.path(), "tokenizer_config.json", tokenizer.config_json(model.context))?;
    if let Some(template) = &tokenizer.chat_template {
        write_atomic(&folder.path().join("chat_template.jinja"), template.as_bytes())?;
    }
    let beside = beside(folder.path())?;
    let written = weights::write(file, &folder.path().join(WEIGHTS), (&mapped, &beside), options.dtype, progress)?;
    replace_folder(folder, &target)?;

    Ok(Imported {
        folder: out_dir.to_owned(),
        dtype: options.dtype.name(),
        stored: stored(&gguf),
        tensors: mapped.len(),
        parameters: mapped.iter().map(|tensor| tensor.source.elements()).sum(),
        bytes: written.bytes,
        rounded: written.rounded,
        tied: model.tied,
        chat_template: tokenizer.chat_template.is_some(),
        notes: tokenizer.notes,
    })
}

/// The values of a tensor that has at most one for each row of a head.
fn small_tensor(gguf: &Gguf, tensor: &GgufTensor) -> Result<Vec<f32>, Error> {
    const MOST: u64 = 1 << 16;
    let refused = |problem: Problem| problem.at(&gguf.path);
    if tensor.elements() > MOST {
        return Err(refused(Problem::RopeFactors(format!("has {} divisors; at most {MOST} are read", tensor.elements()))));
    }
    let mut blocks = vec![0; tensor.bytes as usize];
    plansmith_files::read_at(&plansmith_files::open(&gguf.path)?, &gguf.path, &mut blocks, tensor.offset)?;
    let mut values = vec![0.0; tensor.elements() as usize];
    if !dequantize(tensor.ggml_type, &blocks, &mut values) {
        return Err(refused(Problem::NotWeights { tensor: tensor.name.clone(), ggml_type: tensor.ggml_type }));
    }
    Ok(values)
}

fn write_json(folder: &Path, name: &str, json: serde_json::Result<Vec<u8>>) -> Result<(), Error> {
    let path = folder.join(name);
    let mut text = json.map_err(|error| plansmith_files::Error::new("write", &path, error.into()))?;
    text.push(b'\n');
    Ok(write_atomic(&path, &text)?)
}

fn stored(gguf: &Gguf) -> Vec<(&'static str, usize)> {
    let mut counts: Vec<(&'static str, usize)> = Vec::new();
    for tensor in gguf.tensors.values() {
        let name = tensor.ggml_type.name();
        match counts.iter_mut().find(|count| count.0 == name) {
            Some(count) => count.1 += 1,
            None => counts.push((name, 1)),
        }
    }
    counts.sort_by_key(|&(name, count)| (std::cmp::Reverse(count), name));
    counts
}

/// The folder to write, links resolved, once it is clear that nothing is lost by replacing it.
fn replaceable(file: &Path, out_dir: &Path, force: bool) -> Result<PathBuf, Error> {
    let refused = |problem| Err(Error::Folder { path: out_dir.to_owned(), problem });
    let target = match plansmith_files::canonicalize(out_dir) {
        Ok(target) => target,
        Err(error) if error.is_not_found() && out_dir.is_symlink() => return refused(FolderProblem::Dangling),
        Err(error) if error.is_not_found() => return Ok(out_dir.to_owned()),
        Err(error) => return Err(error.into()),
    };
    if !plansmith_files::is_dir(&target) {
        return refused(FolderProblem::NotAFolder);
    }
    if plansmith_files::canonicalize(file)?.starts_with(&target) {
        return refused(FolderProblem::Source);
    }
    let entries = plansmith_files::list(&target)?;
    if force || entries.is_empty() {
        return Ok(target);
    }
    for entry in &entries {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        if !WRITTEN.contains(&name.as_ref()) || !plansmith_files::is_file(entry) {
            return refused(FolderProblem::Foreign(name.into_owned()));
        }
    }
    let metadata = match inspect_file(&target.join(WEIGHTS)) {
        Ok(weights) if weights.header.metadata.contains_key(weights::MARK) => weights.header.metadata,
        _ => return refused(FolderProblem::NotImported),
    };
    let written: weights::Beside = metadata.get(weights::BESIDE).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    match beside(&target)?.into_iter().find(|(name, digest)| written.get(name) != Some(digest)) {
        Some((name, _)) => refused(FolderProblem::Edited(name)),
        None => Ok(target),
    }
}

/// The files of `folder`, but for the weights.
fn beside(folder: &Path) -> Result<weights::Beside, Error> {
    let files = plansmith_files::list(folder)?.into_iter().filter(|path| path.file_name().is_some_and(|name| name != WEIGHTS));
    files.map(|path| Ok((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), sha256_file(&path)?))).collect()
}
