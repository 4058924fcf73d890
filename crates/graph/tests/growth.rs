//! How a graph grows: constants and sizes once each, names, time.

#![allow(clippy::unwrap_used, reason = "a helper of a test that cannot unwrap has failed it")]

use plansmith_graph::{Data, Dim, ExternalData, Graph, Metadata, Result, Value, check, dims};
use plansmith_tensor::DType;

#[test]
fn a_constant_is_stored_once_and_inline() {
    let mut g = Graph::new("test", 21).unwrap();
    let x = g.input("x", DType::F32, &dims!["n"]).unwrap();
    let y = g.mul(x, 0.125).unwrap();
    let y = g.add(y, 0.125).unwrap();
    let y = g.sub(y, -0.0).unwrap();
    let y = g.add(y, 0).unwrap();
    g.output("y", y).unwrap();
    let model = g.finish(&Metadata::default()).unwrap();
    let constants = model.graph.unwrap().initializer;
    let stored: Vec<_> = constants.iter().map(|tensor| (tensor.name(), tensor.raw_data())).collect();
    let [eighth, zero] = [0.125f32, -0.0].map(f32::to_le_bytes);
    assert_eq!(
        stored,
        [("/constant/f32/scalar/0.125", &eighth[..]), ("/constant/f32/scalar/-0.0", &zero[..]), ("/constant/f32/scalar/0.0", &[0; 4][..]),]
    );
}

#[test]
fn an_output_renames_its_value_or_copies_what_has_a_name_already() {
    let mut g = Graph::new("test", 21).unwrap();
    let x = g.input("x", DType::F32, &dims!["n"]).unwrap();
    let y = g.neg(x).unwrap();
    for (name, value) in [("y", y), ("y_again", y), ("x_again", x)] {
        g.output(name, value).unwrap();
    }
    let graph = g.finish(&Metadata::default()).unwrap().graph.unwrap();
    let nodes: Vec<_> = graph.node.iter().map(|node| (node.op_type(), &node.input[0][..], &node.output[0][..])).collect();
    assert_eq!(nodes, [("Neg", "x", "y"), ("Identity", "y", "y_again"), ("Identity", "x", "x_again")]);
    let outputs: Vec<_> = graph.output.iter().map(|output| output.name()).collect();
    assert_eq!(outputs, ["y", "y_again", "x_again"]);
}

#[test]
fn a_size_is_computed_once_for_the_whole_graph() {
    let mut g = Graph::new("test", 21).unwrap();
    let x = g.input("x", DType::F32, &dims!["batch", "seq", 6]).unwrap();
    let tokens = Dim::symbol("batch") * "seq";
    let mut y = x;
    for _ in 0..5 {
        y = g.reshape(y, &[tokens.clone(), 6u64.into()]).unwrap();
        y = g.reshape(y, &dims!["batch", "seq", 2, 3]).unwrap();
        y = g.reshape(y, &dims!["batch", "seq", 6]).unwrap();
    }
    g.output("y", y).unwrap();
    let graph = g.finish(&Metadata::default()).unwrap().graph.unwrap();
    let count = |op: &str| graph.node.iter().filter(|node| node.op_type() == op).count();
    assert_eq!((count("Reshape"), count("Shape"), count("Concat")), (15, 1, 1));
    let shapes: Vec<_> = graph.node.iter().filter(|node| node.op_type() == "Reshape").map(|node| &node.input[1][..]).take(3).collect();
    assert_eq!(shapes, ["/constant/i64/vector/-1_6", "/sizes/Concat_output_0", "/constant/i64/vector/0_0_6"]);
}

/// ONNX clamps bounds: `x[:, :8]` of a length that may be 5 is not 8 long.
#[test]
fn lengths_are_expressions_only_where_that_is_certain() {
    let mut g = Graph::new("test", 21).unwrap();
    let total = g.define_dim("total", Dim::symbol("past") + "seq");
    let x = g.input("x", DType::I64, &dims!["batch", "past", "seq"]).unwrap();
    let mask = g.input("mask", DType::I64, &dims!["batch", "total"]).unwrap();
    let mut length = |start: plansmith_graph::Operand, end: plansmith_graph::Operand| {
        let value = g.slice(mask, 1, start, end).unwrap();
        g.dims(value)[1].clone()
    };
    let past = Dim::symbol("past");
    assert_eq!(length((&past).into(), (&total).into()), Dim::symbol("seq"));
    assert_eq!(length((&past).into(), i64::MAX.into()), Dim::symbol("seq"));
    assert_eq!(length(0.into(), (&past).into()), past);
    let (first, second) = (length(0.into(), 8.into()), length((-8).into(), i64::MAX.into()));
    assert!(first.known().is_none() && first != total && first != second, "{first} and {second}");

    // Contents of shape tensors are followed through arithmetic, so that a Range over them has a length.
    let shape = g.shape_of(x, 0..3).unwrap();
    let (past_size, sequence) = (g.gather(shape, 1, 0).unwrap(), g.gather(shape, -1, 0).unwrap());
    let end = g.add(past_size, sequence).unwrap();
    let queries = g.range(past_size, end, 1).unwrap();
    assert_eq!(g.dims(queries)[..], dims!["seq"]);
    let evens = g.range(0, end, 2).unwrap();
    assert!(g.dims(evens)[0].known().is_none() && g.dims(evens)[0] != total);
}

fn layer(g: &mut Graph, index: u64, x: Value) -> Result<Value> {
    g.scope(&format!("layers.{index}"), |g| {
        let mut y = x;
        for projection in ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] {
            let data = Data::External(ExternalData::new("model.safetensors", index * 1024, 1024).unwrap());
            let weight = g.initializer(&format!("layers.{index}.{projection}.weight"), DType::F32, &[16, 16], data)?;
            y = g.scope(projection, |g| g.gemm(y, weight, None, true))?;
            y = g.reshape(y, &dims!["batch", "seq", 4, 4])?;
            y = g.transpose(y, &[0, 2, 1, 3])?;
            y = g.mul(y, 0.5)?;
            y = g.transpose(y, &[0, 2, 1, 3])?;
            y = g.reshape(y, &[Dim::symbol("batch") * "seq", 16u64.into()])?;
        }
        g.add(x, y)
    })
}

/// 200 layers, 8,600 nodes: quadratic work would take minutes.
#[test]
fn a_deep_graph_is_built_and_checked_in_linear_time() {
    let start = std::time::Instant::now();
    let mut g = Graph::new("deep", 21).unwrap();
    let x = g.input("x", DType::F32, &dims!["batch", "seq", 16]).unwrap();
    let mut y = g.reshape(x, &[Dim::symbol("batch") * "seq", 16u64.into()]).unwrap();
    for index in 0..200 {
        y = layer(&mut g, index, y).unwrap();
    }
    g.output("y", y).unwrap();
    let built = start.elapsed();
    let model = g.finish(&Metadata::default()).unwrap();
    let bytes = plansmith_onnx::encode(&model);
    println!("{} nodes: built in {built:?}, encoded ({} bytes) after {:?}", g.node_count(), bytes.len(), start.elapsed());
    assert_eq!(g.node_count(), 200 * (7 * 6 + 1) + 3);
    assert!(start.elapsed().as_secs() < 60);
}

#[test]
fn broken_structures_are_found() {
    let model = plansmith_onnx::decode(include_bytes!("data/every_operator_23.onnx")).unwrap();
    assert_eq!(check(&model), Default::default());
    let broken = |change: &dyn Fn(&mut plansmith_onnx::proto::GraphProto)| {
        let mut model = model.clone();
        change(model.graph.as_mut().unwrap());
        check(&model)
    };
    let errors = |change: &dyn Fn(&mut plansmith_onnx::proto::GraphProto)| broken(change).errors;
    assert_eq!(errors(&|graph| graph.output[0].name = Some("nothing".into())), ["the output `nothing` is computed by no node"]);
    assert_eq!(errors(&|graph| graph.output.push(graph.output[0].clone())), ["the output `present` is listed twice"]);
    assert_eq!(
        errors(&|graph| graph.node.swap(0, 1)),
        ["node `/linear/Gemm` uses `/Reshape_output_0`, which a later node defines: nodes must be in order"]
    );
    assert_eq!(broken(&|graph| graph.node[1].name = graph.node[0].name.clone()).shared_node_names, ["/Reshape"]);
    assert_eq!(
        errors(&|graph| graph.node[1].domain = Some("com.example".into())),
        ["node `/linear/Gemm`: no operator set of domain `com.example` is imported"]
    );
    assert_eq!(errors(&|graph| graph.node.push(graph.node[0].clone())), ["the value `/Reshape_output_0` is defined twice"]);
    assert_eq!(errors(&|graph| graph.initializer.push(graph.initializer[1].clone())).len(), 1);
    let mut spare = model.graph.as_ref().unwrap().initializer[0].clone();
    spare.name = Some("spare".into());
    let findings = broken(&|graph| graph.initializer.push(spare.clone()));
    assert_eq!((findings.errors.len(), findings.unused_initializers), (0, vec!["spare".to_owned()]));
}
