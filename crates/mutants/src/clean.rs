//! Graphs without a fault, at every dtype: no false alarm.

use std::path::{Path, PathBuf};

use plansmith_lowering::{Float, Target, WeightsMode, export};
use plansmith_pipeline::GraphCandidate;
use plansmith_runtime::RuntimeKind;
use plansmith_verify::Outcome;

use crate::score::{Bench, open};

/// One graph without a fault.
#[derive(Debug, Clone)]
pub struct Clean {
    /// Folder of the checkpoint.
    pub checkpoint: String,
    /// `fp16 stored, fp32 computed` and the like.
    pub dtypes: String,
    /// Why verify does not agree; `None` where it does.
    pub alarm: Option<String>,
}

/// Storage and compute.
const DTYPES: [(Option<Float>, Float, &str); 5] = [
    (None, Float::Fp32, "as stored, fp32 computed"),
    (Some(Float::Fp16), Float::Fp16, "fp16"),
    (Some(Float::Fp16), Float::Fp32, "fp16 stored, fp32 computed"),
    (Some(Float::Bf16), Float::Fp32, "bf16 stored, fp32 computed"),
    (Some(Float::Bf16), Float::Bf16, "bf16"),
];

/// Made to overflow in fp16, and refused there: not without a fault.
const OVERFLOWS: &str = "fp16_overflow";

/// Every checkpoint below `testdata/mutants`, and with `all` those of `testdata/cases` that transformers and we load, exported at every dtype and
/// verified with reference and golden. `bf16` is left out on ONNX Runtime, whose CPU has no operators for it.
///
/// # Errors
/// A folder cannot be read, or nothing is there to verify.
pub fn clean_graphs(all: bool, runtime: RuntimeKind, each: &mut dyn FnMut(&Clean)) -> Result<Vec<Clean>, String> {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let mut folders = checkpoints(&testdata.join("mutants"))?;
    if all {
        folders.extend(checkpoints(&testdata.join("cases"))?);
    }
    if folders.is_empty() {
        return Err(format!("no checkpoint below {}", testdata.display()));
    }
    let mut cleans = Vec::new();
    for folder in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // What is refused at the door is accused of nothing.
        if open(&folder).is_err() {
            continue;
        }
        for (storage, compute, dtypes) in DTYPES {
            if name == OVERFLOWS && compute == Float::Fp16 || runtime == RuntimeKind::Ort && compute == Float::Bf16 {
                continue;
            }
            let alarm = verify(&folder, storage, compute, runtime).err();
            let clean = Clean { checkpoint: name.clone(), dtypes: dtypes.to_owned(), alarm };
            each(&clean);
            cleans.push(clean);
        }
    }
    Ok(cleans)
}

/// The folders that hold a golden, and with it a checkpoint that transformers loads.
fn checkpoints(root: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = plansmith_files::list(root).map_err(|error| error.to_string())?;
    let whole = |path: &PathBuf| plansmith_files::is_file(&path.join("golden.safetensors"));
    let mut folders: Vec<PathBuf> = entries.into_iter().filter(whole).collect();
    folders.sort();
    Ok(folders)
}

fn verify(folder: &Path, storage: Option<Float>, compute: Float, runtime: RuntimeKind) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let source = open(folder)?;
    let out = tempfile::tempdir().map_err(|error| text(&error))?;
    let target = Target { storage, compute: Some(compute), ..Target::default() };
    let exported = export(&source, &target, WeightsMode::Auto, out.path(), None, "mutants", &|_| ()).map_err(|error| text(&error))?;
    let graph = GraphCandidate::file(&exported.graph, "graph").map_err(|error| text(&error))?;
    let golden = folder.join("golden.safetensors");
    let verdict = Bench::of(folder, runtime)?.assess(&source, &graph, Some(&golden), false)?;
    if verdict.verdict == Outcome::Agree { Ok(()) } else { Err(verdict.summary()) }
}
