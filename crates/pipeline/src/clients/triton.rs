//! Models for Triton Inference Server: `config.pbtxt` for a graph on its ONNX Runtime backend, and for plans on its TensorRT backend.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use plansmith_engine::{BuildHost, Compatible, Flavor, PlanHeader, PlanManifest, TensorRecord, Weights, check_plan};
use plansmith_onnx::ModelProto;
use plansmith_onnx::proto::ValueInfoProto;
use plansmith_tensor::DType;

use super::agree::tensor;
use crate::Error;

/// Why plans of TensorRT for RTX are in no repository.
pub(crate) const RTX_IN_TRITON: &str =
    "Triton's TensorRT backend loads plans of TensorRT (which begin `ftrt`), and those of TensorRT for RTX (`vtrt`) are none to it";

/// `text` in the characters that a model's name may have in a URL.
pub fn served_name(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
}

/// The configuration of the model `name`: every input and output with its type, and −1 for what a request decides.
///
/// `max_batch_size` is 0: the rows of a batch share a mask and a cache, so that Triton must not put requests together by itself.
///
/// # Errors
/// The graph at `path` holds a type that the backend cannot be given.
pub fn triton_config(name: &str, path: &Path, model: &ModelProto) -> Result<String, Error> {
    let mut text = format!("name: {name:?}\nbackend: \"onnxruntime\"\ndefault_model_filename: \"model.onnx\"\nmax_batch_size: 0\n");
    let Some(graph) = &model.graph else { return Ok(text) };
    for (kind, values) in [("input", &graph.input), ("output", &graph.output)] {
        let entries = values.iter().map(|value| entry(path, value)).collect::<Result<Vec<_>, _>>()?;
        let _ = writeln!(text, "{kind} [\n{}\n]", entries.join(",\n"));
    }
    Ok(text)
}

fn entry(path: &Path, value: &ValueInfoProto) -> Result<String, Error> {
    let bad = |problem: String| Error::Bundle { path: path.to_owned(), problem };
    let (dtype, dims) = tensor(value).ok_or_else(|| bad(format!("says no type and shape of `{}`", value.name())))?;
    let name = match dtype {
        DType::I64 => "TYPE_INT64",
        DType::F32 => "TYPE_FP32",
        DType::F16 => "TYPE_FP16",
        other => return Err(bad(format!("has `{}` of {other}, which Triton's ONNX Runtime backend takes from no request", value.name()))),
    };
    let dims: Vec<String> = dims.iter().map(|dim| dim.map_or_else(|| "-1".to_owned(), |dim| dim.to_string())).collect();
    Ok(line(value.name(), name, &dims))
}

fn line(name: &str, dtype: &str, dims: &[String]) -> String {
    format!("  {{ name: {name:?} data_type: {dtype} dims: [ {} ] }}", dims.join(", "))
}

/// A model of plans: one profile of one graph, on every GPU that there is a plan for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanModel {
    /// What it is served as.
    pub name: String,
    /// `config.pbtxt`.
    pub config: String,
    /// Bare names within the version's folder, and the plans that go there.
    pub files: Vec<(String, PathBuf)>,
}

/// A plan with what decides where it goes.
struct Served {
    path: PathBuf,
    manifest: PlanManifest,
    /// `9.0`; `None` for a plan that runs on every GPU from Ampere on.
    compute: Option<String>,
}

/// A model `base`-PROFILE for each profile of `plans`, which may come from many machines; each has its manifest beside it.
///
/// # Errors
/// Names the plan that Triton's TensorRT backend would not load (another flavour, weights outside of it), that is not what its manifest
/// says, or that does not go with the others of its profile.
pub fn triton_plans(base: &str, plans: &[PathBuf]) -> Result<Vec<PlanModel>, Error> {
    let mut profiles: Vec<(String, Vec<Served>)> = Vec::new();
    for path in plans {
        let (profile, served) = read_plan(path)?;
        match profiles.iter_mut().find(|(name, _)| *name == profile) {
            Some((_, others)) => {
                fits(&served, others)?;
                others.push(served);
            }
            None => profiles.push((profile, vec![served])),
        }
    }
    profiles.into_iter().map(|(profile, plans)| plan_model(served_name(&format!("{base}-{profile}")), plans)).collect()
}

fn refuse<T>(path: &Path, problem: impl Into<String>) -> Result<T, Error> {
    Err(Error::Bundle { path: path.to_owned(), problem: problem.into() })
}

fn read_plan(path: &Path) -> Result<(String, Served), Error> {
    if PlanHeader::read(path)?.flavor == Flavor::Rtx {
        let next = "build it with `plansmith engine --flavor enterprise --arch native` on its GPU";
        return refuse(path, format!("is of the rtx flavour: {RTX_IN_TRITON}; {next}"));
    }
    let manifest = check_plan(path)?.manifest;
    if manifest.weights != Weights::Embedded {
        return refuse(
            path,
            format!("has its weights {}, which Triton does not put in: build it with --weights embedded", manifest.weights),
        );
    }
    let profile = match &manifest.profiles[..] {
        [one] => one.profile.name().to_owned(),
        many => {
            return refuse(
                path,
                format!("has {} profiles, of which Triton would take the first: build it with --profiles-as plan-each", many.len()),
            );
        }
    };
    let compute = match &manifest.host {
        BuildHost::Gpu(gpu) => gpu.compute.clone(),
        BuildHost::CpuAot => {
            return refuse(path, "does not say on which GPU it was built; plans of the enterprise flavour are built on theirs");
        }
    };
    let everywhere = manifest.compatible.contains(&Compatible::AmperePlus);
    Ok((profile, Served { path: path.to_owned(), manifest, compute: (!everywhere).then_some(compute) }))
}

/// Plans of one model are chosen by GPU, and are otherwise the same to a client.
fn fits(plan: &Served, others: &[Served]) -> Result<(), Error> {
    let Some(first) = others.first() else { return Ok(()) };
    let sides = |manifest: &PlanManifest| (manifest.inputs.clone(), manifest.outputs.clone(), manifest.onnx.clone());
    if sides(&plan.manifest) != sides(&first.manifest) {
        return refuse(&plan.path, format!("is of another graph than {}, which has a profile of the same name", first.path.display()));
    }
    match others.iter().find(|other| other.compute == plan.compute) {
        Some(twin) => refuse(&plan.path, format!("is for the same GPUs as {}", twin.path.display())),
        None => Ok(()),
    }
}

fn plan_model(name: String, plans: Vec<Served>) -> Result<PlanModel, Error> {
    let mut config = format!("name: {name:?}\nplatform: \"tensorrt_plan\"\nmax_batch_size: 0\n");
    let mut files = Vec::new();
    let mut by_compute = Vec::new();
    for plan in &plans {
        let file = match &plan.compute {
            Some(compute) => format!("sm{}.plan", compute.replace('.', "")),
            None => "ampere-plus.plan".to_owned(),
        };
        match &plan.compute {
            Some(compute) => by_compute.push(format!("  {{ key: {compute:?} value: {file:?} }}")),
            None => config.push_str(&format!("default_model_filename: {file:?}\n")),
        }
        files.push((file, plan.path.clone()));
    }
    if !by_compute.is_empty() {
        let _ = writeln!(config, "cc_model_filenames [\n{}\n]", by_compute.join(",\n"));
    }
    if let Some(Served { path, manifest, .. }) = plans.first() {
        for (kind, tensors) in [("input", &manifest.inputs), ("output", &manifest.outputs)] {
            let lines = tensors.iter().map(|tensor| plan_entry(path, tensor)).collect::<Result<Vec<_>, _>>()?;
            let _ = writeln!(config, "{kind} [\n{}\n]", lines.join(",\n"));
        }
    }
    Ok(PlanModel { name, config, files })
}

fn plan_entry(path: &Path, tensor: &TensorRecord) -> Result<String, Error> {
    let dtype = match tensor.dtype {
        DType::I64 => "TYPE_INT64",
        DType::F32 => "TYPE_FP32",
        DType::F16 => "TYPE_FP16",
        DType::BF16 => "TYPE_BF16",
        other => return refuse(path, format!("has `{}` of {other}, which this layout has no word for", tensor.name)),
    };
    let dims: Vec<String> = tensor.shape.iter().map(i64::to_string).collect();
    Ok(line(&tensor.name, dtype, &dims))
}
