//! `plansmith inspect`: what a path is, from its header.

use std::collections::BTreeMap;
use std::path::Path;

use plansmith_checkpoint::gguf::Gguf;
use plansmith_checkpoint::{Checkpoint, TensorInfo, inspect_file};
use plansmith_lowering::Source;
use plansmith_pipeline::{MANIFEST_NAME, Manifest};
use serde_json::{Value, json};

use super::export::options;
use crate::args::Inspect;
use crate::exit::{Failure, Outcome};
use crate::output::{Output, human_bytes};

pub(crate) fn run(args: &Inspect, output: &Output) -> Result<Outcome, Failure> {
    let path = &args.path;
    if !path.exists() {
        return Err(Failure::new(format!("{} does not exist", path.display()))
            .hint("name a checkpoint's folder, a bundle, or a .safetensors, .gguf, .onnx or .plan file"));
    }
    let (lines, json) = if plansmith_files::is_dir(path) {
        if plansmith_files::is_file(&path.join(MANIFEST_NAME)) { bundle(path)? } else { checkpoint(args)? }
    } else {
        match path.extension().and_then(|extension| extension.to_str()).unwrap_or_default() {
            "gguf" => gguf(path)?,
            "onnx" => onnx(path)?,
            "plan" | "engine" => super::inspect_plan::report(path)?,
            "json" => return Err(json_file(path)),
            _ => safetensors(path)?,
        }
    };
    if args.json {
        output.json(&json)?;
    } else {
        output.result(lines.join("\n"))?;
    }
    Ok(Outcome::Done)
}

pub(super) type Report = (Vec<String>, Value);

/// `2 BF16 tensors, 1.0 MB`, a line a dtype, and as JSON.
fn tensors<'a>(tensors: impl Iterator<Item = &'a TensorInfo>) -> Report {
    let mut by_dtype: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for tensor in tensors {
        let entry = by_dtype.entry(tensor.dtype.name()).or_default();
        *entry = (entry.0 + 1, entry.1 + tensor.bytes);
    }
    let line = |(dtype, (count, bytes)): (&&str, &(u64, u64))| format!("  {count} tensors {dtype}, {}", human_bytes(*bytes));
    let lines = by_dtype.iter().map(line).collect();
    let json = by_dtype.iter().map(|(dtype, (count, bytes))| ((*dtype).to_owned(), json!({ "tensors": count, "bytes": bytes })));
    (lines, Value::Object(json.collect()))
}

fn tensor_list<'a>(tensors: impl Iterator<Item = &'a TensorInfo>) -> Vec<Value> {
    let entry = |tensor: &TensorInfo| json!({ "name": tensor.name, "dtype": tensor.dtype.name(), "shape": tensor.shape, "offset": tensor.offset, "bytes": tensor.bytes });
    tensors.map(entry).collect()
}

/// JSON describes something else: that is what to inspect.
fn json_file(path: &Path) -> Failure {
    let plan = path.with_extension("plan");
    let folder = plansmith_files::folder_of(path);
    let of = |what: &Path| format!("`plansmith inspect {}` shows what it belongs to", what.display());
    let hint = if plansmith_files::is_file(&plan) {
        of(&plan)
    } else if [MANIFEST_NAME, "config.json"].iter().any(|name| plansmith_files::is_file(&folder.join(name))) {
        of(folder)
    } else {
        "name a checkpoint's folder, a bundle, or a .safetensors, .gguf, .onnx or .plan file".to_owned()
    };
    Failure::new(format!("{} is JSON, which says nothing by itself", path.display())).hint(hint)
}

fn safetensors(path: &Path) -> Result<Report, Failure> {
    let summary = inspect_file(path)?;
    let (mut lines, dtypes) = tensors(summary.header.tensors.values());
    let count = summary.header.tensors.len();
    lines.insert(0, format!("{}: safetensors, {count} tensors, {}", path.display(), human_bytes(summary.file.size)));
    for (key, value) in &summary.file.metadata {
        lines.push(format!("  metadata {key} = {value}"));
    }
    let json = json!({
        "kind": "safetensors", "bytes": summary.file.size, "header_sha256": summary.file.header_digest, "metadata": summary.file.metadata,
        "dtypes": dtypes, "tensors": tensor_list(summary.header.tensors.values()),
    });
    Ok((lines, json))
}

fn checkpoint(args: &Inspect) -> Result<Report, Failure> {
    let checkpoint = Checkpoint::open(&args.path)?;
    let (mut lines, dtypes) = tensors(checkpoint.tensors().values());
    let bytes: u64 = checkpoint.files().iter().map(|file| file.size).sum();
    let (count, files) = (checkpoint.tensors().len(), checkpoint.files().len());
    lines.insert(0, format!("{}: checkpoint, {count} tensors in {files} files, {}", args.path.display(), human_bytes(bytes)));
    let files: Vec<_> = checkpoint
        .files()
        .iter()
        .map(|file| json!({ "name": file.name, "bytes": file.size, "header_sha256": file.header_digest, "link": file.is_link }))
        .collect();
    let listed = tensor_list(checkpoint.tensors().values());
    drop(checkpoint);
    let source = Source::open(&args.path, &options(&args.config))?;
    let spec = &source.loaded.spec;
    let attention = &spec.layers[0].attention;
    let windows = spec.layers.iter().filter(|layer| layer.attention.window.is_some()).count();
    lines.push(format!("  {} ({})", source.loaded.model_type, source.loaded.architecture));
    lines.push(format!(
        "  {} layers, hidden_size {}, {} heads and {} kv_heads of head_dim {}, vocab {}, {} positions{}{}",
        spec.layers.len(),
        spec.hidden_size,
        attention.heads,
        attention.kv_heads,
        attention.head_dim,
        spec.vocab_size,
        spec.max_positions,
        if spec.is_tied() { ", tied head" } else { "" },
        if windows > 0 { format!(", {windows} layers with a window") } else { String::new() },
    ));
    let json = json!({
        "kind": "checkpoint", "bytes": bytes, "files": files, "dtypes": dtypes, "tensors": listed,
        "model_type": source.loaded.model_type, "architecture": source.loaded.architecture,
        "spec": {
            "layers": spec.layers.len(), "hidden_size": spec.hidden_size, "heads": attention.heads, "kv_heads": attention.kv_heads,
            "head_dim": attention.head_dim, "vocab_size": spec.vocab_size, "max_positions": spec.max_positions, "tied": spec.is_tied(),
            "windowed_layers": windows,
        },
    });
    Ok((lines, json))
}

fn gguf(path: &Path) -> Result<Report, Failure> {
    let gguf = Gguf::open(path)?;
    let mut by_type: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for tensor in gguf.tensors.values() {
        let entry = by_type.entry(tensor.ggml_type.to_string()).or_default();
        *entry = (entry.0 + 1, entry.1 + tensor.bytes);
    }
    let mut lines = vec![format!("{}: GGUF v{}, {} tensors, {}", path.display(), gguf.version, gguf.tensors.len(), human_bytes(gguf.size))];
    lines.extend(by_type.iter().map(|(kind, (count, bytes))| format!("  {count} tensors {kind}, {}", human_bytes(*bytes))));
    let text = |key: &str| gguf.metadata.get(key).map(|value| format!("{value}"));
    for key in ["general.architecture", "general.name", "tokenizer.ggml.model", "tokenizer.ggml.pre"] {
        lines.extend(text(key).map(|value| format!("  {key} = {value}")));
    }
    let metadata: serde_json::Map<String, Value> =
        gguf.metadata.iter().map(|(key, value)| (key.clone(), json!(value.to_string()))).collect();
    let types: BTreeMap<_, _> =
        by_type.into_iter().map(|(kind, (count, bytes))| (kind, json!({ "tensors": count, "bytes": bytes }))).collect();
    Ok((lines, json!({ "kind": "gguf", "version": gguf.version, "bytes": gguf.size, "types": types, "metadata": metadata })))
}

fn onnx(path: &Path) -> Result<Report, Failure> {
    let model = plansmith_onnx::load(path)?;
    let in_file = |error: plansmith_onnx::Error| plansmith_onnx::Error::InFile { path: path.to_owned(), problem: Box::new(error) };
    plansmith_onnx::validate(&model).map_err(in_file)?;
    let signature = plansmith_onnx::signature(&model).map_err(in_file)?;
    let mut operators = BTreeMap::<&str, usize>::new();
    for node in model.graph.iter().flat_map(|graph| &graph.node) {
        *operators.entry(node.op_type()).or_default() += 1;
    }
    let nodes: usize = operators.values().sum();
    let opsets: Vec<String> = model
        .opset_import
        .iter()
        .map(|import| format!("{} {}", if import.domain().is_empty() { "ai.onnx" } else { import.domain() }, import.version()))
        .collect();
    let mut lines = vec![format!("{}: ONNX, {nodes} nodes, opset {}", path.display(), opsets.join(", "))];
    let show = |tensor: &plansmith_tensor::TensorSignature| {
        let dims: Vec<String> = tensor.shape.iter().map(|dim| dim.as_ref().map_or_else(Clone::clone, u64::to_string)).collect();
        (tensor.name.clone(), format!("{}[{}]", tensor.dtype, dims.join(", ")))
    };
    let (inputs, outputs): (Vec<_>, Vec<_>) = (signature.inputs.iter().map(show).collect(), signature.outputs.iter().map(show).collect());
    lines.extend(inputs.iter().map(|(name, shape)| format!("  input  {name}: {shape}")));
    lines.extend(outputs.iter().map(|(name, shape)| format!("  output {name}: {shape}")));
    let files: Vec<String> = plansmith_onnx::external_files(&model).map_err(in_file)?;
    lines.extend(files.iter().map(|file| format!("  external data in {file}")));
    let metadata: BTreeMap<&str, &str> = model.metadata_props.iter().map(|entry| (entry.key(), entry.value())).collect();
    lines.extend(metadata.iter().map(|(key, value)| format!("  {key} = {value}")));
    let pairs = |list: &[(String, String)]| list.iter().map(|(name, shape)| json!({ "name": name, "type": shape })).collect::<Vec<_>>();
    let json = json!({
        "kind": "onnx", "nodes": nodes, "operators": operators, "opsets": opsets, "inputs": pairs(&inputs), "outputs": pairs(&outputs), "external_data": files,
        "metadata": metadata,
    });
    Ok((lines, json))
}

fn bundle(path: &Path) -> Result<Report, Failure> {
    let (manifest, digest) = Manifest::read(path)?;
    let bytes: u64 = manifest.files.values().map(|file| file.bytes).sum();
    let mut lines = vec![format!("{}: bundle {}, {} files, {}", path.display(), manifest.name, manifest.files.len(), human_bytes(bytes))];
    lines.push(format!("  verdict {}, manifest sha256 {digest}", manifest.verdict.verdict));
    lines.extend(
        manifest.graphs.iter().map(|graph| format!("  graph {}: weights {}, compute {}", graph.path, graph.storage, graph.compute)),
    );
    lines.extend(manifest.plans.iter().map(|plan| format!("  plan  {}", plan.path)));
    Ok((lines, json!({ "kind": "bundle", "bytes": bytes, "manifest_sha256": digest, "manifest": manifest })))
}
