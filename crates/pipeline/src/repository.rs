//! The model repository of Triton Inference Server that `layouts: [triton]` puts beside a bundle's graphs: one model for each export, and one
//! for each profile of its plans.

use std::path::Path;

use plansmith_files::{Digest, copy_file, create_dir_all, write_atomic};
use plansmith_graph::Metadata;

use crate::Error;
use crate::clients::{PlanModel, served_name, triton_config, triton_plans};
use crate::manifest::FileRecord;
use crate::stages::{ExportStage, Stages};
use crate::store::StageFiles;

/// Its folder within the bundle.
const FOLDER: &str = "triton";

/// The configuration of an export's model, and what the model is called.
fn configuration(bundle: &str, stage: &ExportStage) -> Result<(String, String), Error> {
    let name = served_name(&format!("{bundle}-{}", stage.id));
    let model = stage.lowered.graph.finish(&Metadata::default()).map_err(plansmith_lowering::Error::from)?;
    let text = triton_config(&name, Path::new(&format!("export:{}", stage.id)), &model)?;
    Ok((name, text))
}

/// Refuses exports that Triton cannot serve, before anything is written.
pub(crate) fn check(bundle: &str, exports: &[ExportStage]) -> Result<(), Error> {
    exports.iter().try_for_each(|stage| configuration(bundle, stage).map(drop))
}

/// Writes the repository of the bundle in `folder`, whose files so far are `files`. Graphs and weights are in it a second time, since
/// ONNX Runtime wants weights within the graph's folder and Triton wants each model in a folder of its own; a file system that can share
/// their blocks does.
pub(crate) fn write(folder: &Path, bundle: &str, exports: &[ExportStage], files: &StageFiles) -> Result<StageFiles, Error> {
    let mut written = StageFiles::new();
    for stage in exports {
        let (name, text) = configuration(bundle, stage)?;
        let model = format!("{FOLDER}/{name}");
        create_dir_all(&folder.join(format!("{model}/1/model.onnx")))?;
        let config = format!("{model}/config.pbtxt");
        write_atomic(&folder.join(&config), text.as_bytes())?;
        written.insert(config, FileRecord { bytes: text.len() as u64, sha256: Digest::of(text.as_bytes()) });
        let graph = (stage.file.as_str(), "model.onnx");
        for (own, served) in stage.weights.iter().map(|name| (name.as_str(), name.as_str())).chain([graph]) {
            let from = format!("onnx/{own}");
            let to = format!("{model}/1/model.onnx/{served}");
            copy_file(&folder.join(&from), &folder.join(&to))?;
            if let Some(record) = files.get(&from) {
                written.insert(to, *record);
            }
        }
    }
    Ok(written)
}

/// Adds a model for each profile of each export's plans; they are in the repository a second time, as graphs are.
pub(crate) fn write_plans(folder: &Path, bundle: &str, stages: &Stages, files: &StageFiles) -> Result<StageFiles, Error> {
    let mut written = StageFiles::new();
    for (index, export) in stages.exports.iter().enumerate() {
        let plans: Vec<_> = stages.plans.iter().filter(|plan| plan.from == index).map(|plan| folder.join(&plan.path)).collect();
        for PlanModel { name, config: text, files: served } in triton_plans(&format!("{bundle}-{}", export.id), &plans)? {
            let model = format!("{FOLDER}/{name}");
            create_dir_all(&folder.join(format!("{model}/1")))?;
            let config = format!("{model}/config.pbtxt");
            write_atomic(&folder.join(&config), text.as_bytes())?;
            written.insert(config, FileRecord { bytes: text.len() as u64, sha256: Digest::of(text.as_bytes()) });
            for (name, path) in served {
                let to = format!("{model}/1/{name}");
                copy_file(&path, &folder.join(&to))?;
                let own = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
                if let Some(record) = files.get(&own) {
                    written.insert(to, *record);
                }
            }
        }
    }
    Ok(written)
}
