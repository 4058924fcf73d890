//! Every operator's shape rule against what PyPI `onnx` infers: `tests/data/shapes.json`, made by `tools/onnx_shapes.py`.

#![allow(clippy::unwrap_used, reason = "a helper of a test that cannot unwrap has failed it")]

use plansmith_graph::{AttentionOptions, Data, Dim, Graph, Result, RotaryOptions, Value};
use plansmith_tensor::DType;
use serde_json::Value as Json;

const CASES: &str = include_str!("data/shapes.json");

fn dtype(name: &str) -> DType {
    name.to_ascii_uppercase().parse().unwrap()
}

/// `f32[batch,4]`.
fn parse(text: &str) -> (DType, Vec<Dim>) {
    let (name, dims) = text.strip_suffix(']').unwrap().split_once('[').unwrap();
    let dim = |dim: &str| dim.parse::<u64>().map_or_else(|_| Dim::symbol(dim), Dim::from);
    (dtype(name), dims.split(',').filter(|dim| !dim.is_empty()).map(dim).collect())
}

/// The operands of a case: tensors as graph inputs, numbers as they are.
struct Operands<'a> {
    json: &'a [Json],
    values: Vec<Option<Value>>,
}

impl<'a> Operands<'a> {
    fn new(g: &mut Graph, json: &'a [Json]) -> Self {
        let mut values = Vec::new();
        for (index, operand) in json.iter().enumerate() {
            values.push(operand.as_str().map(|text| {
                let (dtype, dims) = parse(text);
                g.input(&format!("in{index}"), dtype, &dims).unwrap()
            }));
        }
        Self { json, values }
    }

    fn at(&self, index: usize) -> Value {
        self.values[index].unwrap()
    }

    fn get(&self, index: usize) -> Option<Value> {
        self.values.get(index).copied().flatten()
    }

    fn ints(&self, index: usize) -> Vec<i64> {
        match &self.json[index] {
            Json::Array(numbers) => numbers.iter().map(|number| number.as_i64().unwrap()).collect(),
            number => vec![number.as_i64().unwrap()],
        }
    }

    fn int(&self, index: usize) -> i64 {
        self.ints(index)[0]
    }
}

fn build(g: &mut Graph, op: &str, x: &Operands<'_>, attributes: &Json) -> Result<Vec<Value>> {
    let axis = || attributes["axis"].as_i64().unwrap();
    let keep = attributes["keepdims"] == 1;
    let one = |value: Result<Value>| value.map(|value| vec![value]);
    match op {
        "Gemm" => one(g.gemm(x.at(0), x.at(1), x.get(2), attributes["transB"] == 1)),
        "MatMul" => one(g.matmul(x.at(0), x.at(1))),
        "Add" => one(g.add(x.at(0), x.at(1))),
        "Sub" => one(g.sub(x.at(0), x.at(1))),
        "Mul" => one(g.mul(x.at(0), x.at(1))),
        "Div" => one(g.div(x.at(0), x.at(1))),
        "Min" => one(g.min(x.at(0), x.at(1))),
        "Max" => one(g.max(x.at(0), x.at(1))),
        "Pow" => one(g.pow(x.at(0), x.at(1))),
        "Equal" => one(g.equal(x.at(0), x.at(1))),
        "Less" => one(g.less(x.at(0), x.at(1))),
        "LessOrEqual" => one(g.less_or_equal(x.at(0), x.at(1))),
        "Greater" => one(g.greater(x.at(0), x.at(1))),
        "GreaterOrEqual" => one(g.greater_or_equal(x.at(0), x.at(1))),
        "And" => one(g.and(x.at(0), x.at(1))),
        "Or" => one(g.or(x.at(0), x.at(1))),
        "Not" => one(g.not(x.at(0))),
        "Where" => one(g.select(x.at(0), x.at(1), x.at(2))),
        "Neg" => one(g.neg(x.at(0))),
        "Sqrt" => one(g.sqrt(x.at(0))),
        "Reciprocal" => one(g.reciprocal(x.at(0))),
        "Sigmoid" => one(g.sigmoid(x.at(0))),
        "Tanh" => one(g.tanh(x.at(0))),
        "Erf" => one(g.erf(x.at(0))),
        "Exp" => one(g.exp(x.at(0))),
        "Log" => one(g.log(x.at(0))),
        "Floor" => one(g.floor(x.at(0))),
        "Relu" => one(g.relu(x.at(0))),
        "Softplus" => one(g.softplus(x.at(0))),
        "Cos" => one(g.cos(x.at(0))),
        "Sin" => one(g.sin(x.at(0))),
        "Gelu" => one(g.gelu(x.at(0), true)),
        "Softmax" => one(g.softmax(x.at(0), axis())),
        "Cast" => one(g.cast(x.at(0), plansmith_onnx::dtype(attributes["to"].as_i64().unwrap() as i32).unwrap())),
        "ReduceMean" => one(g.reduce_mean(x.at(0), &x.ints(1), keep)),
        "ReduceSum" => one(g.reduce_sum(x.at(0), &x.ints(1), keep)),
        "ReduceMax" => one(g.reduce_max(x.at(0), &x.ints(1), keep)),
        "CumSum" => one(g.cumsum(x.at(0), x.int(1))),
        "TopK" => {
            let (values, indices) = g.top_k(x.at(0), x.int(1) as u64, axis())?;
            Ok(vec![values, indices])
        }
        "Reshape" => {
            // -1 and 0 are what the builder writes: it is asked for the dimensions themselves.
            let from = g.dims(x.at(0));
            let to: Vec<Dim> = match (&x.ints(1)[..], &from[..]) {
                ([-1, heads, size], [rows, _]) => vec![rows.clone(), (*heads as u64).into(), (*size as u64).into()],
                ([0, 0, size], [batch, sequence, ..]) => vec![batch.clone(), sequence.clone(), (*size as u64).into()],
                (sizes, _) => sizes.iter().map(|&size| Dim::from(size as u64)).collect(),
            };
            one(g.reshape(x.at(0), &to))
        }
        "Transpose" => {
            let permutation: Vec<usize> =
                attributes["perm"].as_array().unwrap().iter().map(|axis| axis.as_u64().unwrap() as usize).collect();
            one(g.transpose(x.at(0), &permutation))
        }
        "Concat" => one(g.concat(&[x.at(0), x.at(1)], axis())),
        "Split" => g.split(x.at(0), axis(), &x.ints(1).iter().map(|&size| size as u64).collect::<Vec<_>>()),
        "Unsqueeze" => one(g.unsqueeze(x.at(0), &x.ints(1))),
        "Squeeze" => one(g.squeeze(x.at(0), &x.ints(1))),
        "Expand" => {
            let from = g.dims(x.at(0));
            let sizes = x.ints(1);
            let offset = sizes.len() - from.len();
            let dim = |(index, &size): (usize, &i64)| match index.checked_sub(offset) {
                Some(axis) if size == 1 => from[axis].clone(),
                _ => Dim::from(size as u64),
            };
            one(g.expand(x.at(0), &sizes.iter().enumerate().map(dim).collect::<Vec<_>>()))
        }
        "Identity" => one(g.identity(x.at(0))),
        "Shape" => {
            let end = |name: &str| attributes[name].as_u64().unwrap() as usize;
            one(g.shape_of(x.at(0), end("start")..end("end")))
        }
        "Range" => one(g.range(x.int(0), x.int(1), x.int(2))),
        "Gather" => match (x.get(1), &x.json[1]) {
            (Some(indices), _) => one(g.gather(x.at(0), indices, axis())),
            (None, Json::Array(_)) => one(g.gather(x.at(0), &x.ints(1)[..], axis())),
            (None, _) => one(g.gather(x.at(0), x.int(1), axis())),
        },
        "GatherElements" => one(g.gather_elements(x.at(0), x.at(1), axis())),
        "GatherND" => one(g.gather_nd(x.at(0), x.at(1), attributes["batch_dims"].as_u64().unwrap() as usize)),
        "Slice" => one(g.slice(x.at(0), x.int(3), x.int(1), x.int(2))),
        "Clip" => one(g.clip(x.at(0), Some(-1.0), None)),
        "LayerNormalization" => one(g.layer_norm(x.at(0), x.at(1), x.get(2), 1e-5)),
        "RMSNormalization" => one(g.rms_norm(x.at(0), x.at(1), 1e-5)),
        "RotaryEmbedding" => {
            let options =
                RotaryOptions { interleaved: attributes["interleaved"] == 1, rotary_dim: attributes["rotary_embedding_dim"].as_u64() };
            match x.values.get(3) {
                Some(_) => one(g.rotary(x.at(0), x.at(1), x.at(2), x.at(3), options)),
                None => one(g.rotary_at(x.at(0), x.at(1), x.at(2), options)),
            }
        }
        "Attention" => one(g.attention(x.at(0), x.at(1), x.at(2), x.get(3), AttentionOptions { scale: Some(0.125), ..Default::default() })),
        "TensorScatter" => one(g.tensor_scatter(x.at(0), x.at(1), x.at(2))),
        other => panic!("no arm for {other}"),
    }
}

#[test]
fn shapes_are_those_that_onnx_infers() {
    let cases: Vec<Json> = serde_json::from_str(CASES).unwrap();
    assert!(cases.len() >= 70);
    for case in &cases {
        let mut g = Graph::new("case", case["opset"].as_u64().unwrap() as u32).unwrap();
        let operands = Operands::new(&mut g, case["inputs"].as_array().unwrap());
        let outputs = build(&mut g, case["op"].as_str().unwrap(), &operands, &case["attributes"]).unwrap();
        let wanted = case["outputs"].as_array().unwrap();
        assert_eq!(outputs.len(), wanted.len(), "{case}");
        for (&output, wanted) in outputs.iter().zip(wanted) {
            let (dtype, dims) = parse(wanted.as_str().unwrap());
            assert_eq!(g.dtype(output), dtype, "{case}");
            let found = g.dims(output);
            assert_eq!(found.len(), dims.len(), "{case}");
            for (found, wanted) in found.iter().zip(&dims) {
                // Where onnx gives up, ours must still be symbolic: a number would be a claim that onnx does not support.
                let unknown = *wanted == Dim::symbol("?");
                assert!(if unknown { found.known().is_none() } else { found == wanted }, "{case}: {found} against {wanted}");
            }
        }
    }
}

/// What the builder accepts, the operator set has; and fp32, fp16 and bf16 are accepted wherever it has them.
#[test]
fn dtypes_are_those_of_the_operator_set() {
    let allowed: Json = serde_json::from_str(include_str!("data/dtypes.json")).unwrap();
    let cases: Vec<Json> = serde_json::from_str(CASES).unwrap();
    let all = "BOOL U8 I8 U16 I16 U32 I32 U64 I64 F16 BF16 F32 F64";
    let mut checked = 0;
    for (case, dtype, opset) in
        cases.iter().flat_map(|case| all.split(' ').flat_map(move |dtype| (21..=24).map(move |opset| (case, dtype, opset))))
    {
        let Some(first) = case["inputs"][0].as_str() else {
            assert_eq!(case["op"], "Range");
            continue;
        };
        let original = format!("{}[", first.split_once('[').unwrap().0);
        let replaced = format!("{}[", dtype.to_ascii_lowercase());
        let substitute = |input: &Json| match input.as_str() {
            Some(text) if text.starts_with(&original) => Json::String(text.replacen(&original, &replaced, 1)),
            _ => input.clone(),
        };
        let inputs: Vec<Json> = case["inputs"].as_array().unwrap().iter().map(substitute).collect();
        let op = case["op"].as_str().unwrap();
        let mut g = Graph::new("case", opset).unwrap();
        let operands = Operands::new(&mut g, &inputs);
        let accepted = build(&mut g, op, &operands, &case["attributes"]);
        let exists = allowed[op][opset.to_string()].as_array().is_some_and(|names| names.iter().any(|name| name == dtype));
        // A Cast to what the tensor has already is no node.
        let nothing_to_do = accepted.is_ok() && g.node_count() == 0;
        assert!(exists || nothing_to_do || accepted.is_err(), "{op} of {dtype} is accepted for opset {opset}");
        if exists && ["F32", "F16", "BF16"].contains(&dtype) {
            assert!(accepted.is_ok(), "{op} of {dtype} in opset {opset}: {accepted:?}");
        }
        checked += 1;
    }
    assert!(checked > 3000, "{checked}");
}

#[test]
fn every_operator_of_the_builder_has_a_case() {
    let sources = concat!(
        include_str!("../src/ops/activation.rs"),
        include_str!("../src/ops/arithmetic.rs"),
        include_str!("../src/ops/attention.rs"),
        include_str!("../src/ops/index.rs"),
        include_str!("../src/ops/layout.rs"),
        include_str!("../src/ops/linear.rs"),
        include_str!("../src/ops/logic.rs"),
        include_str!("../src/ops/norm.rs"),
        include_str!("../src/ops/reduce.rs"),
        include_str!("../src/ops/rotary_at.rs"),
        include_str!("../src/ops/shape.rs"),
    );
    // Operators stand in the sources as `"Name", since(…)`, `"Name", 14, …` or `= "Name" since …`.
    for piece in sources.split('"').skip(1).step_by(2) {
        let operator = piece.starts_with(|first: char| first.is_ascii_uppercase())
            && piece.chars().all(|letter| letter.is_ascii_alphanumeric())
            && piece.contains(|letter: char| letter.is_ascii_lowercase());
        if operator {
            assert!(CASES.contains(&format!("\"op\": \"{piece}\"")), "no case for {piece}");
        }
    }
}

/// Not a shape rule but its reason: the data of an initialiser is not read, so its size must be right.
#[test]
fn an_initialiser_of_the_wrong_size_is_refused() {
    let mut g = Graph::new("case", 21).unwrap();
    let error = g.initializer("w", DType::F32, &[2, 3], Data::Inline([0; 20].into())).unwrap_err();
    assert_eq!(error.to_string(), "initialiser `w`: f32[2, 3] implies 24 bytes, the data has 20");
}
