//! Values inside a graph, against what hooks on transformers see (`tools/make_mutant_fixtures.py`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking and shows what it found")]

mod common;

use std::path::Path;

use common::Golden;
use plansmith_families::Options;
use plansmith_graph::Metadata;
use plansmith_lowering::{Source, Target, lower};
use plansmith_runtime::{GraphSource, OpenOptions, Optimization, RuntimeKind, open};
use safetensors::SafeTensors;

/// Value in the graph, and the tap that it is.
const TAPS: [(&str, &str); 5] = [
    ("/model/layers.0/Add_1_output_0", "layers.0"),
    ("/model/layers.1/self_attn/o_proj/Gemm_output_0", "layers.1.self_attn"),
    ("/model/layers.1/mlp/down_proj/Gemm_output_0", "layers.1.mlp"),
    ("/model/layers.2/Add_1_output_0", "layers.2"),
    ("/model/norm/RMSNormalization_output_0", "final_norm"),
];

fn taps_agree(kind: RuntimeKind, optimization: Optimization) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/mutants/llama");
    let source = Source::open(&folder, &Options::default()).unwrap();
    let model = lower(&source, &Target::default()).unwrap().graph.finish(&Metadata::default()).unwrap();
    // A mask, which is no float, is asked for too.
    let taps = TAPS.iter().map(|(value, _)| (*value).to_owned()).chain(["/model/mask/And_output_0".to_owned()]).collect();
    let options = OpenOptions { optimization, taps, ..OpenOptions::default() };
    let mut session = open(kind, GraphSource::Memory { model: &model, folder: &folder }, &options).unwrap();
    assert!(session.tapped().is_empty());
    let golden = Golden::read_sets(&folder.join("golden.safetensors")).into_iter().find(|set| set.batch == 1).unwrap();
    let bytes = plansmith_files::read(&folder.join("taps.safetensors")).unwrap();
    let wanted = SafeTensors::deserialize(&bytes).unwrap();
    // In two steps: what is tapped is the last one's.
    let first = 30;
    session.step(&golden.batch(0..1, 0, 0, first)).unwrap();
    let before = session.tapped().to_vec();
    session.step(&golden.batch(0..1, 0, first, golden.sequence)).unwrap();
    for (index, (_, tap)) in TAPS.iter().enumerate() {
        let wanted: Vec<f32> = wanted.tensor(tap).unwrap().data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        let (start, end) = (before[index].as_ref().unwrap(), session.tapped()[index].as_ref().unwrap());
        assert_eq!((start.data.len(), end.data.len()), (first * 32, (golden.sequence - first) * 32), "{tap}");
        let largest = wanted.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        let off = start.data.iter().chain(&end.data).zip(&wanted).map(|(found, wanted)| (found - wanted).abs()).fold(0.0, f32::max);
        assert!(off <= 2e-5 * largest, "{tap}: {off:e} of {largest}");
    }
    assert_eq!(session.tapped()[TAPS.len()], None, "a mask is no float tensor");
}

#[test]
fn values_inside_are_those_of_transformers_on_rten() {
    taps_agree(RuntimeKind::Rten, Optimization::Full);
    taps_agree(RuntimeKind::Rten, Optimization::Off);
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn values_inside_are_those_of_transformers_on_onnx_runtime() {
    taps_agree(RuntimeKind::Ort, Optimization::Full);
}
