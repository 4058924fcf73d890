//! Whole texts of what goes wrong.

#![allow(clippy::unwrap_used, reason = "a helper of a test that cannot unwrap has failed it")]

use plansmith_graph::{AttentionOptions, Data, Dim, Error, ExternalData, Graph, Metadata, Value, dims};
use plansmith_tensor::DType;

fn graph(opset: u32) -> Graph {
    Graph::new("test", opset).unwrap()
}

fn input(g: &mut Graph, name: &str, dims: &[Dim]) -> Value {
    g.input(name, DType::F32, dims).unwrap()
}

fn text<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_node_that_does_not_fit_names_scope_and_both_shapes() {
    let mut g = graph(23);
    g.define_dim("tokens", Dim::symbol("batch_size") * "sequence_length");
    let x = input(&mut g, "x", &dims!["tokens", 576]);
    let w = input(&mut g, "w", &dims![1536, 512]);
    let error = g.scope("model", |g| g.scope("layers.3", |g| g.scope("mlp", |g| g.gemm(x, w, None, true))));
    assert_eq!(
        text(error),
        "cannot add `Gemm(f32[tokens, 576], f32[1536, 512], transB=1)` in `/model/layers.3/mlp`: \
         axis 1 of the input is 576, axis 1 of the weight is 512"
    );
    let y = input(&mut g, "y", &dims!["total", 576]);
    assert_eq!(
        text(g.add(x, y)),
        "cannot add `Add(f32[tokens, 576], f32[total, 576])` in `/`: \
         axis -2 is tokens on one side and total on the other"
    );
    let half = g.input("half", DType::F16, &dims!["tokens", 576]).unwrap();
    assert_eq!(text(g.mul(x, half)), "cannot add `Mul(f32[tokens, 576], f16[tokens, 576])` in `/`: dtypes are F32 and F16, must be equal");
    assert_eq!(
        text(g.reshape(x, &dims!["tokens", 9, 32])),
        "cannot add `Reshape(f32[tokens, 576])` in `/`: 576*batch_size*sequence_length elements do not make f32[tokens, 9, 32], \
         which has 288*batch_size*sequence_length"
    );
    assert_eq!(
        text(g.split(x, 1, &[512, 32])),
        "cannot add `Split(f32[tokens, 576], i64[2], axis=1)` in `/`: axis 1 is 576, the sum of the sizes is 544"
    );
    assert_eq!(text(g.mul(half, 1e6)), "cannot add `Mul(f16[tokens, 576])` in `/`: 1000000.0 cannot be expressed in F16");
    assert_eq!(text(g.softmax(x, 2)), "cannot add `Softmax(f32[tokens, 576], axis=2)` in `/`: axis 2 is outside of a tensor of rank 2");
}

#[test]
fn attention_checks_heads_and_mask() {
    let mut g = graph(23);
    let q = input(&mut g, "q", &dims!["batch", 9, "seq", 64]);
    let k = input(&mut g, "k", &dims!["batch", 4, "total", 64]);
    assert_eq!(
        text(g.attention(q, k, k, None, AttentionOptions::default())),
        "cannot add `Attention(f32[batch, 9, seq, 64], f32[batch, 4, total, 64], f32[batch, 4, total, 64])` in `/`: \
         q has 9 heads, k has 4: not a multiple"
    );
    let k = input(&mut g, "k3", &dims!["batch", 3, "total", 64]);
    let mask = g.input("mask", DType::Bool, &dims!["batch", 1, "total", "seq"]).unwrap();
    let problem = text(g.attention(q, k, k, Some(mask), AttentionOptions::default()));
    assert!(problem.ends_with("axis -2 is total on one side and seq on the other"), "{problem}");
}

#[test]
fn an_operator_younger_than_the_graph_is_refused() {
    let mut g = graph(21);
    let x = input(&mut g, "x", &dims![2, 4]);
    let scale = input(&mut g, "scale", &dims![4]);
    let error = g.scope("norm", |g| g.rms_norm(x, scale, 1e-5)).unwrap_err();
    assert_eq!(error.to_string(), "cannot add `RMSNormalization` in `/norm`: it needs opset 23, the graph is written for opset 21");
    assert_eq!(error.hint().unwrap(), "use `--opset 23` or later, or a form of the graph without this operator");
    assert_eq!(text(Graph::new("g", 25)), "opset 25 is not supported; choose one from 21 to 24");
}

#[test]
fn names_are_unique_and_one_tensor_has_one_description() {
    let mut g = graph(21);
    let x = input(&mut g, "x", &dims![2]);
    assert_eq!(text(g.input("x", DType::I64, &[])), "`x` is the input f32[2] and cannot also be an input");
    assert_eq!(text(g.output("x", x)), "`x` is the input f32[2] and cannot also be an output");
    let at = |offset| Data::External(ExternalData::new("model.safetensors", offset, 8).unwrap());
    let w = g.initializer("w", DType::F32, &[2], at(0)).unwrap();
    assert_eq!(g.initializer("w", DType::F32, &[2], at(0)).unwrap(), w);
    assert_eq!(
        text(g.initializer("w", DType::F32, &[2], at(8))),
        "`w` is the initialiser f32[2] and cannot also be the initialiser f32[2] with other data"
    );
    assert_eq!(text(g.initializer("v", DType::F16, &[2], at(8))), "initialiser `v`: f16[2] implies 4 bytes, the data has 8");
    let outside = ExternalData { location: "../model.safetensors".to_owned(), offset: 0, length: Some(8) };
    assert_eq!(
        text(g.initializer("u", DType::F32, &[2], Data::External(outside))),
        "initialiser `u`: location `../model.safetensors` is not a bare file name; the data file must lie beside the model"
    );
}

#[test]
fn work_for_nothing_is_refused() {
    let mut g = graph(21);
    let x = input(&mut g, "x", &dims![2]);
    let y = g.neg(x).unwrap();
    g.output("y", y).unwrap();
    let mut wasteful = g.clone();
    wasteful.scope("layers.0", |g| g.exp(x)).unwrap();
    assert_eq!(text(wasteful.finish(&Metadata::default())), "no output needs what `/layers.0/Exp` computes");
    g.initializer("w", DType::F32, &[1], Data::Inline([0; 4].into())).unwrap();
    assert_eq!(text(g.finish(&Metadata::default())), "no node uses the initialiser `w`");
}

#[test]
fn a_dimension_without_source_is_named() {
    let mut g = graph(21);
    input(&mut g, "x", &dims!["batch", 2]);
    let error = g.size_scalar(&(Dim::symbol("batch") + "sequence")).unwrap_err();
    assert_eq!(error.to_string(), "no input has a dimension `sequence`, so the graph cannot compute it");
    assert_eq!(error.hint().unwrap(), "give the dimension a number, or add an input that has it");
}
