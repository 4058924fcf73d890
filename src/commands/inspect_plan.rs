//! `plansmith inspect` of a plan: its header, and what the manifest beside it says. No GPU and no TensorRT are asked.

use std::path::Path;

use plansmith_engine::{BuildHost, LayerSummary, PlanHeader, PlanManifest, RefitRecord, Reproducibility, Weights, manifest_path};
use serde_json::json;

use super::inspect::Report;
use crate::exit::Failure;
use crate::output::human_bytes;

/// So many layers are printed; `--json` has them all.
const LAYERS: usize = 20;

pub(super) fn report(path: &Path) -> Result<Report, Failure> {
    // A pipe would be waited for.
    plansmith_files::open_regular(path)?;
    let header = PlanHeader::read(path)?;
    let architectures: Vec<&str> = header.architectures().iter().map(|architecture| architecture.name()).collect();
    let bytes = plansmith_files::metadata(path)?.len();
    let mut lines = vec![format!("{}: TensorRT plan, {}", path.display(), human_bytes(bytes))];
    let targets = if architectures.is_empty() { "a GPU that the header does not name".to_owned() } else { architectures.join(", ") };
    lines.push(format!("  header: flavour {}, version {}, for {targets}", header.flavor, header.version));
    let beside = manifest_path(path);
    let manifest = plansmith_files::is_file(&beside).then(|| PlanManifest::read(&beside)).transpose()?;
    match &manifest {
        Some(manifest) => {
            described(path, manifest, &mut lines);
            if !is_of(&header, bytes, manifest) {
                lines.push("  the manifest is that of another plan: size or header differ".to_owned());
            }
        }
        None => lines.push(format!("  no manifest at {}: header facts only; profiles, inputs and layers are unknown", beside.display())),
    }
    let matches = manifest.as_ref().map(|manifest| is_of(&header, bytes, manifest));
    let json = json!({
        "kind": "plan", "bytes": bytes, "header": header, "architectures": architectures, "manifest": manifest, "manifest_matches": matches,
    });
    Ok((lines, json))
}

fn described(path: &Path, manifest: &PlanManifest, lines: &mut Vec<String>) {
    let graph = &manifest.onnx.graph;
    lines.push(format!("  built by plansmith {} from {} (sha256 {})", manifest.plansmith, graph.name, graph.sha256));
    if let BuildHost::Gpu(gpu) = &manifest.host {
        let with: Vec<&str> = manifest.compatible.iter().map(|compatible| compatible.name()).collect();
        let with = if with.is_empty() { String::new() } else { format!(", compatible: {}", with.join(", ")) };
        lines.push(format!("  built on {} (compute {}, CUDA {}){with}", gpu.name, gpu.compute, gpu.cuda));
    }
    lines.extend(manifest.profiles.iter().map(|record| format!("  profile {}", record.profile)));
    let tensor = |tensor: &plansmith_engine::TensorRecord| {
        let shape: Vec<String> = tensor.shape.iter().map(|&dim| if dim < 0 { "?".to_owned() } else { dim.to_string() }).collect();
        format!("{}: {}[{}]", tensor.name, tensor.dtype, shape.join(", "))
    };
    let caches = manifest.cache.len();
    let is_cache = |name: &str| manifest.cache.iter().any(|pair| pair.past == name || pair.present == name);
    lines.extend(manifest.inputs.iter().filter(|input| !is_cache(&input.name)).map(|input| format!("  input  {}", tensor(input))));
    lines.extend(manifest.outputs.iter().filter(|output| !is_cache(&output.name)).map(|output| format!("  output {}", tensor(output))));
    if let Some(first) = manifest.inputs.iter().find(|input| is_cache(&input.name)) {
        let aliased = manifest.cache.iter().filter(|pair| pair.aliased).count();
        let how = if aliased > 0 { "updated in place" } else { "each followed by an output" };
        lines.push(format!("  cache  {caches} tensors, {how}, such as {}", tensor(first)));
    }
    lines.push(match manifest.weights {
        Weights::Embedded => "  weights are in the plan".to_owned(),
        Weights::Streaming => "  weights are in the plan and may be streamed from host memory".to_owned(),
        Weights::Stripped => stripped(path, manifest),
    });
    if let Some(timings) = &manifest.timing_cache {
        let read = timings.read.map_or("none".to_owned(), |digest| digest.to_string());
        lines.push(format!("  timing cache: began with {read}, left {}", timings.written));
        lines.extend(timings.refused.iter().map(|why| format!("  timing cache refused: {why}")));
    }
    let proof = match &manifest.reproducible {
        Reproducibility::Proved { .. } => "a second build gave the same bytes",
        Reproducibility::Differs { .. } => "a second build gave other bytes",
        Reproducibility::NotTried { .. } => "not built twice",
    };
    lines.push(format!("  reproducible: {proof}"));
    lines.extend(manifest.warnings.iter().map(|warning| format!("  warning: {warning}")));
    layers(&manifest.layers, lines);
}

fn stripped(path: &Path, manifest: &PlanManifest) -> String {
    let bytes: u64 = manifest.refit.iter().map(|record: &RefitRecord| record.place.bytes()).sum();
    let count = manifest.refit.len();
    let place = match manifest.data_files(path) {
        Ok(files) => files.iter().map(|(path, _)| path.display().to_string()).collect::<Vec<_>>().join(", "),
        Err(error) => format!("nowhere: {error}"),
    };
    format!("  weights are not in the plan: {count} of {} in {place}", human_bytes(bytes))
}

/// Layers with weights as a table, biggest first, and the kinds of the rest.
fn layers(summary: &LayerSummary, lines: &mut Vec<String>) {
    let total: u64 = summary.kinds.values().sum();
    if total == 0 {
        lines.push("  no layers are recorded in the manifest".to_owned());
        return;
    }
    let mut kinds: Vec<(&String, &u64)> = summary.kinds.iter().collect();
    kinds.sort_by(|one, other| other.1.cmp(one.1).then_with(|| one.0.cmp(other.0)));
    let kinds: Vec<String> = kinds.into_iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    lines.push(format!("  {total} layers as parsed: {}", kinds.join(", ")));
    let weighted = &summary.weighted;
    lines.push(format!("  {:>10}  {:<18}  {:<22}  layer ({} with weights, biggest first)", "weights", "kind", "output", weighted.len()));
    for layer in weighted.iter().take(LAYERS) {
        let shape: Vec<String> = layer.shape.iter().map(|&dim| if dim < 0 { "?".to_owned() } else { dim.to_string() }).collect();
        let output = format!("{}[{}]", layer.dtype, shape.join(", "));
        lines.push(format!("  {:>10}  {:<18}  {output:<22}  {}", human_bytes(layer.weight_bytes), layer.kind, layer.name));
    }
    if weighted.len() > LAYERS {
        lines.push(format!("  … and {} more (--json lists all)", weighted.len() - LAYERS));
    }
    lines.push("  which kernels these become, and how long each takes, only TensorRT on a GPU can say".to_owned());
}

/// Whether a manifest is this plan's, as far as can be told without hashing.
fn is_of(header: &PlanHeader, bytes: u64, manifest: &PlanManifest) -> bool {
    *header == manifest.plan.header && bytes == manifest.plan.bytes
}
