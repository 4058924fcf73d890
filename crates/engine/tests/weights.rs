//! Plans whose weights are elsewhere.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use common::{decoder_in, names, paths};
use plansmith_engine::{
    Architecture, BuildReport, BuildRequest, Error, Opened, Place, PlanManifest, PlanSession, Reproducibility, Weights, Worker, check_plan,
    inspect_model, manifest_path,
};
use plansmith_onnx::ExternalData;
use plansmith_onnx::proto::TensorProto;

fn request(onnx: &Path, plan: &Path, weights: Weights) -> BuildRequest {
    let profile = "decode:batch=1..1..2,sequence=1..4..8,past=0..8..32".parse().unwrap();
    let mut request = BuildRequest::new(onnx, plan, profile, vec![Architecture::Sm86]);
    request.weights = weights;
    request
}

fn build(onnx: &Path, plan: &Path, weights: Weights) -> Result<BuildReport, Error> {
    Worker::spawn(&paths()).unwrap().build(&request(onnx, plan, weights), &mut |_| {})
}

/// Initialisers of the graph by name.
fn initialisers(onnx: &Path) -> HashMap<String, TensorProto> {
    let graph = plansmith_onnx::load(onnx).unwrap().graph.unwrap();
    graph.initializer.into_iter().map(|tensor| (tensor.name().to_owned(), tensor)).collect()
}

/// A stripped plan of the test decoder, in a folder of its own.
fn stripped(folder: &Path) -> (PathBuf, PathBuf, PlanManifest) {
    let onnx = decoder_in(folder, "onnx");
    let plan = folder.join("engines/sm86/decode.plan");
    let manifest = build(&onnx, &plan, Weights::Stripped).unwrap().manifest;
    (onnx, plan, manifest)
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn the_map_is_where_the_graph_has_its_weights() {
    let folder = tempfile::tempdir().unwrap();
    let (onnx, plan, manifest) = stripped(folder.path());
    let tensors = initialisers(&onnx);
    assert_eq!((manifest.weights, manifest.data_folder.as_deref()), (Weights::Stripped, Some("../../onnx")));
    assert!(!manifest.refit.is_empty());
    for record in &manifest.refit {
        let tensor = &tensors[&record.tensor];
        let elements: i64 = tensor.dims.iter().product();
        assert_eq!((record.elements as i64, plansmith_onnx::dtype(tensor.data_type())), (elements, Some(record.dtype)), "{record:?}");
        match (&record.place, ExternalData::of(tensor).unwrap()) {
            (Place::File { file, offset, bytes }, Some(data)) => {
                assert_eq!((file, *offset, Some(*bytes)), (&data.location, data.offset, data.length), "{record:?}");
            }
            (place, data) => panic!("{place:?} for {data:?}"),
        }
    }
    assert_eq!(PlanManifest::read(&manifest_path(&plan)).unwrap(), manifest);
    let checked = check_plan(&plan).unwrap().checked;
    assert!(checked.last().unwrap().starts_with("weights: "), "{checked:?}");
    match PlanSession::open(&paths(), std::slice::from_ref(&plan)).unwrap() {
        Opened::NotExecuted(reason) => {
            let total: u64 = manifest.refit.iter().map(|record| record.place.bytes()).sum();
            let wanted = format!("decode.plan: {} weights of {total} bytes are where the map says", manifest.refit.len());
            assert!(reason.checked.contains(&wanted), "{reason:?}");
        }
        Opened::Session(_) => {}
    }
}

/// Names are repeated wherever a plan's text mentions a layer; those of weights are what a refit asks for.
#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_stripped_plan_keeps_the_names_of_weights_and_its_manifest_those_of_layers() {
    let folder = tempfile::tempdir().unwrap();
    let (onnx, plan, manifest) = stripped(folder.path());
    let whole = folder.path().join("whole.plan");
    let embedded = build(&onnx, &whole, Weights::Embedded).unwrap().manifest;
    assert_eq!((&manifest.layers, manifest.layers.weighted.is_empty()), (&embedded.layers, false));
    let [stripped, embedded] = [&plan, &whole].map(|plan| std::fs::read(plan).unwrap());
    let holds = |plan: &[u8], name: &str| plan.windows(name.len()).any(|bytes| bytes == name.as_bytes());
    for name in manifest.inputs.iter().chain(&manifest.outputs).map(|tensor| &tensor.name) {
        assert!(holds(&stripped, name), "{name}");
    }
    for name in manifest.refit.iter().map(|record| &record.name) {
        assert!(holds(&stripped, name), "{name}");
    }
    let metadata = "[ONNX Layer: ";
    assert!(holds(&embedded, metadata) && !holds(&stripped, metadata));
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn a_stripped_plan_holds_none_of_what_its_map_names() {
    let folder = tempfile::tempdir().unwrap();
    let (onnx, plan, manifest) = stripped(folder.path());
    assert!(manifest.warnings.is_empty(), "{:?}", manifest.warnings);
    let embedded = build(&onnx, &folder.path().join("whole.plan"), Weights::Embedded).unwrap().manifest;
    // Other values in the ranges of the map: the same plan, which has nothing of them; and another plan with the weights in it.
    let data = onnx.with_file_name("decoder.data");
    let mut bytes = std::fs::read(&data).unwrap();
    for record in &manifest.refit {
        let Place::File { offset, bytes: length, .. } = record.place else { panic!("{record:?}") };
        for byte in &mut bytes[offset as usize..(offset + length) as usize] {
            *byte ^= 0x01;
        }
    }
    std::fs::write(&data, &bytes).unwrap();
    let again = build(&onnx, &plan.with_file_name("again.plan"), Weights::Stripped).unwrap();
    let other = build(&onnx, &folder.path().join("other.plan"), Weights::Embedded).unwrap();
    if matches!(again.manifest.reproducible, Reproducibility::NotTried { randomised_addresses: plansmith_engine::RandomisedAddresses::Off })
    {
        assert_eq!(again.manifest.plan.sha256, manifest.plan.sha256);
    }
    assert_ne!(other.manifest.plan.sha256, embedded.plan.sha256);

    // The first plan and its map are still those of the first file.
    let error = check_plan(&plan).unwrap_err();
    assert!(matches!(&error, Error::Data { file, .. } if file == "decoder.data"), "{error}");
    assert!(error.to_string().contains("has the SHA-256"), "{error}");
    std::fs::write(&data, &bytes[1..]).unwrap();
    let text = check_plan(&plan).unwrap_err().to_string();
    assert!(text.contains("has 6143 bytes at") && text.contains("the plan was built from one of 6144"), "{text}");
    std::fs::remove_file(&data).unwrap();
    let error = check_plan(&plan).unwrap_err();
    assert!(error.to_string().contains("is missing; looked at"), "{error}");
    assert!(error.hint().unwrap().contains("beside the plan"));
    // Without its data no stripped plan is built either, though TensorRT would.
    let error = build(&onnx, &folder.path().join("none/decode.plan"), Weights::Stripped).unwrap_err();
    assert!(error.to_string().contains("decoder.data does not exist"), "{error}");
    assert!(!folder.path().join("none").exists() || names(&folder.path().join("none")).is_empty());
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn weights_may_be_streamed() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = decoder_in(folder.path(), "onnx");
    let manifest = build(&onnx, &folder.path().join("decode.plan"), Weights::Streaming).unwrap().manifest;
    // Bit 20 is kWEIGHT_STREAMING in NvInfer.h.
    assert_eq!((manifest.weights, manifest.builder.builder_flags >> 20 & 1), (Weights::Streaming, 1));
    assert!(manifest.refit.is_empty() && manifest.data_folder.is_none());
}

#[test]
#[ignore = "needs the TensorRT-RTX worker: run by cargo xtask test"]
fn layers_are_named_with_the_bytes_of_their_weights() {
    let folder = tempfile::tempdir().unwrap();
    let onnx = decoder_in(folder.path(), "onnx");
    let manifest = build(&onnx, &folder.path().join("decode.plan"), Weights::Embedded).unwrap().manifest;
    let (tensors, graph) = (initialisers(&onnx), plansmith_onnx::load(&onnx).unwrap().graph.unwrap());
    // What each node with one fp16 matrix among its inputs has of weights, by the graph.
    let bytes = |tensor: &TensorProto| tensor.dims.iter().product::<i64>() as u64 * 2;
    let is_matrix = |tensor: &&TensorProto| tensor.dims.len() == 2 && plansmith_onnx::dtype(tensor.data_type()).unwrap().bits() == 16;
    let wanted: BTreeMap<&str, u64> = graph
        .node
        .iter()
        .filter(|node| ["MatMul", "Gemm"].contains(&node.op_type()))
        .filter_map(|node| Some((node.name(), node.input.iter().filter_map(|name| tensors.get(name)).find(is_matrix)?)))
        .map(|(name, tensor)| (name, bytes(tensor)))
        .collect();
    let found: BTreeMap<&str, u64> = manifest
        .layers
        .weighted
        .iter()
        .filter(|layer| layer.kind == "MATRIX_MULTIPLY")
        .map(|layer| (layer.name.as_str(), layer.weight_bytes))
        .collect();
    assert!(!wanted.is_empty());
    assert_eq!(found, wanted);
    assert!(manifest.layers.weighted.is_sorted_by(|one, other| one.weight_bytes >= other.weight_bytes));
    assert!(manifest.layers.kinds["CONSTANT"] > 0);
    let facts = inspect_model(&onnx).unwrap();
    assert_eq!(facts.places.len(), tensors.len());
}
