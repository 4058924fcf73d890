//! Graphs that TensorRT cannot take, refused from the graph alone.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plansmith_engine::{Error, Remedy, inspect_model, refusals};
use plansmith_onnx::proto::{AttributeProto, NodeProto};
use plansmith_onnx::{ModelProto, load};

fn runtime(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/runtime").join(name)
}

/// How many nodes of an operator are refused with a remedy.
fn counted(model: &ModelProto) -> BTreeMap<(String, Remedy), usize> {
    let mut counted = BTreeMap::new();
    for refusal in refusals(model) {
        *counted.entry((refusal.operator, refusal.remedy)).or_default() += 1;
    }
    counted
}

/// Counts by PyPI `onnx` of nodes at which the parser of TensorRT for RTX 1.7.1 stops, or of which it dies (the second).
#[test]
fn graphs_by_other_exporters_are_refused_node_by_node() {
    for (name, wanted) in [
        ("exported/genai/model.onnx", [("com.microsoft GroupQueryAttention", 2)].as_slice()),
        ("exported/genai_fp16/model.onnx", &[("com.microsoft RotaryEmbedding", 4)]),
        ("exported/mobius.onnx", &[("com.microsoft GroupQueryAttention", 2)]),
        ("exported/optimum.onnx", &[]),
        ("exported/torch_dynamo.onnx", &[]),
        ("exported/torch_fixed.onnx", &[]),
        ("exported/torch_script.onnx", &[]),
        ("f16/portable.onnx", &[]),
        ("f32/primitive.onnx", &[]),
    ] {
        let wanted = wanted.iter().map(|&(operator, count)| ((operator.to_owned(), Remedy::Dialect), count)).collect();
        assert_eq!(counted(&load(&runtime(name)).unwrap()), wanted, "{name}");
    }
}

#[test]
fn the_message_names_the_exporter_the_first_node_of_a_kind_and_the_way_out() {
    let error = inspect_model(&runtime("exported/genai_fp16/model.onnx")).unwrap_err();
    let text = error.to_string();
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.ends_with("(made by onnxruntime-genai 0.18.0+00d66ef): 4 of its nodes"), "{first}");
    let lines: Vec<&str> = rest.lines().collect();
    assert_eq!(lines.len(), 1, "{text}");
    let wanted = "(com.microsoft RotaryEmbedding): its num_heads is 0, by which TensorRT's parser divides, and dies (and 3 more like it)";
    assert!(lines[0].starts_with("  node ") && lines[0].ends_with(wanted), "{}", lines[0]);
    assert!(error.hint().unwrap().contains("`plansmith export CHECKPOINT -o DIR --dialect tensorrt`"));
}

/// The node of a graph of ours that is edited by the next test.
fn edited(name: &str, operator: &str, edit: impl Fn(&mut NodeProto)) -> Vec<String> {
    let mut model = load(&runtime(name)).unwrap();
    let nodes = &mut model.graph.as_mut().unwrap().node;
    edit(nodes.iter_mut().find(|node| node.op_type() == operator).unwrap());
    refusals(&model).into_iter().map(|refusal| format!("{}: {}", refusal.operator, refusal.reason)).collect()
}

fn set(node: &mut NodeProto, attribute: AttributeProto) {
    node.attribute.retain(|other| other.name() != attribute.name());
    node.attribute.push(attribute);
}

fn named(name: &str) -> AttributeProto {
    AttributeProto { name: Some(name.to_owned()), ..AttributeProto::default() }
}

/// Each of these was seen to be refused by the parser (or, interleaved rotation, by the compiler) of TensorRT for RTX 1.7.1.
#[test]
fn what_the_operators_of_the_standard_may_not_say_there() {
    let attention = |edit: &dyn Fn(&mut NodeProto)| edited("f16/portable.onnx", "Attention", edit);
    assert_eq!(attention(&|_| {}), Vec::<String>::new());
    let one = |found: Vec<String>, wanted: &str| assert!(found.len() == 1 && found[0].contains(wanted), "{wanted}: {found:?}");
    one(attention(&|node| set(node, AttributeProto { f: Some(30.0), ..named("softcap") })), "Attention: it has a soft cap");
    one(attention(&|node| set(node, AttributeProto { i: Some(1), ..named("softmax_precision") })), "softmax_precision");
    one(attention(&|node| set(node, AttributeProto { i: Some(1), ..named("is_causal") })), "a mask and is_causal");
    one(attention(&|node| node.output.extend(["k".to_owned(), "v".to_owned()])), "Attention with one output");
    one(attention(&|node| node.input.extend(["k".to_owned(), "v".to_owned()])), "Attention with one output");
    one(attention(&|node| node.op_type = Some("Unique".to_owned())), "Unique: TensorRT has no such operator");
    one(attention(&|node| node.domain = Some("my.own".to_owned())), "my.own Attention: neither an operator");
    let rotation = edited("f16/portable.onnx", "RotaryEmbedding", |node| set(node, AttributeProto { i: Some(1), ..named("interleaved") }));
    one(rotation, "rotates neighbours");
    let quantised = edited("f16/portable.onnx", "Gemm", |node| {
        (node.domain, node.op_type) = (Some("com.microsoft".to_owned()), Some("MatMulNBits".to_owned()));
    });
    one(quantised, "com.microsoft MatMulNBits: TensorRT takes it as a plugin only");
}

#[test]
fn attention_in_fp32_is_told_from_dtypes_alone() {
    let found = refusals(&load(&runtime("f32/portable.onnx")).unwrap());
    assert!(!found.is_empty());
    for refusal in &found {
        assert_eq!((refusal.operator.as_str(), refusal.remedy), ("Attention", Remedy::WrittenOut));
        assert!(refusal.reason.contains("fp32"), "{refusal}");
    }
}

#[test]
fn an_input_that_nothing_reads_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["portable.onnx", "model.safetensors"] {
        std::fs::copy(runtime("f16").join(name), folder.path().join(name)).unwrap();
    }
    let path = folder.path().join("portable.onnx");
    let mut model = load(&path).unwrap();
    let graph = model.graph.as_mut().unwrap();
    let mut more = graph.input[0].clone();
    more.name = Some("token_type_ids".to_owned());
    graph.input.push(more);
    std::fs::write(&path, plansmith_onnx::encode(&model)).unwrap();
    let error = inspect_model(&path).unwrap_err();
    assert!(matches!(&error, Error::Unread { inputs, .. } if inputs == &["token_type_ids"]), "{error}");
    assert!(error.to_string().contains("Unused Input: token_type_ids"), "{error}");
}
