//! Emitted models: text form, determinism, and bytes that were validated outside.
//!
//! `tests/data/*.onnx` passed `tools/check_onnx.py` (onnx.checker with full_check, strict shape inference with data propagation, and a
//! run on ONNX Runtime whose output shapes are the declared ones). `PLANSMITH_UPDATE=1` rewrites them; then run that script again.

#![allow(clippy::unwrap_used, reason = "a helper of a test that cannot unwrap has failed it")]

use std::collections::BTreeMap;
use std::path::Path;

use plansmith_graph::{AttentionOptions, Data, Dim, ExternalData, Graph, Metadata, Result, RotaryOptions, Value, dims};
use plansmith_tensor::DType;

fn floats(values: impl IntoIterator<Item = f32>) -> Data {
    Data::Inline(values.into_iter().flat_map(f32::to_le_bytes).collect())
}

fn weight(g: &mut Graph, name: &str, shape: &[u64]) -> Value {
    let count = shape.iter().product::<u64>();
    g.initializer(name, DType::F32, shape, floats((0..count).map(|index| (index % 7) as f32 / 8.0 - 0.375))).unwrap()
}

struct Inputs {
    total: Dim,
    tokens: Dim,
    x: Value,
    ids: Value,
    mask: Value,
    past: Value,
}

fn inputs(g: &mut Graph) -> Inputs {
    let total = g.define_dim("total_sequence_length", Dim::symbol("past_sequence_length") + "sequence_length");
    let tokens = g.define_dim("tokens", Dim::symbol("batch_size") * "sequence_length");
    Inputs {
        x: g.input("x", DType::F32, &dims!["batch_size", "sequence_length", 16]).unwrap(),
        ids: g.input("position_ids", DType::I64, &dims!["batch_size", "sequence_length"]).unwrap(),
        mask: g.input("attention_mask", DType::I64, &dims!["batch_size", "total_sequence_length"]).unwrap(),
        past: g.input("past", DType::F32, &dims!["batch_size", 2, "past_sequence_length", 4]).unwrap(),
        total,
        tokens,
    }
}

/// Every operator that `opset` has, each result an output of its own name.
fn every_operator(opset: u32) -> Graph {
    let mut g = Graph::new("every_operator", opset).unwrap();
    let i = inputs(&mut g);
    build_every_operator(&mut g, &i).unwrap();
    g
}

fn build_every_operator(g: &mut Graph, i: &Inputs) -> Result<()> {
    let mut results: Vec<(&str, Value)> = Vec::new();
    let batch = Dim::symbol("batch_size");
    let sequence = Dim::symbol("sequence_length");
    let flat = g.reshape(i.x, &[i.tokens.clone(), 16u64.into()])?;
    let w = weight(g, "w", &[16, 16]);
    let b = weight(g, "b", &[16]);
    let linear = g.scope("linear", |g| g.gemm(flat, w, Some(b), true))?;
    let heads = g.reshape(linear, &[batch.clone(), sequence.clone(), 4u64.into(), 4u64.into()])?;
    let query = g.transpose(heads, &[0, 2, 1, 3])?;
    let halves = g.split(query, 1, &[2, 2])?;
    let present = g.concat(&[i.past, halves[0]], 2)?;
    let scores = g.scope("scores", |g| {
        let keys = g.transpose(present, &[0, 1, 3, 2])?;
        let queries = g.reshape(query, &[batch.clone(), 2u64.into(), &sequence * 2, 4u64.into()])?;
        g.matmul(queries, keys)
    })?;
    results.extend([("present", present), ("scores", scores)]);

    let queries = g.range(&(&i.total - &sequence), &i.total, 1)?;
    let columns = g.range(0, &i.total, 1)?;
    let (queries, columns) = (g.unsqueeze(queries, &[1])?, g.unsqueeze(columns, &[0])?);
    let causal = g.less_or_equal(columns, queries)?;
    let attended = g.cast(i.mask, DType::Bool)?;
    let attended = g.unsqueeze(attended, &[1, 2])?;
    let mask = g.and(causal, attended)?;
    for (name, value) in [
        ("equal", g.equal(columns, queries)?),
        ("less", g.less(columns, queries)?),
        ("greater", g.greater(columns, 3)?),
        ("greater_or_equal", g.greater_or_equal(columns, queries)?),
    ] {
        let either = g.or(value, causal)?;
        results.push((name, g.not(either)?));
    }
    let zero = g.scalar(DType::F32, 0.0)?;
    results.push(("select", g.select(mask, zero, plansmith_graph::lowest(DType::F32).unwrap())?));
    let (sum, difference) = (g.add(i.x, 1.5)?, g.sub(1.0, i.x)?);
    let (product, quotient) = (g.mul(sum, difference)?, g.div(i.x, 3)?);
    results.extend([("product", product), ("quotient", quotient), ("pow", g.pow(i.x, 2)?)]);
    results.extend([("min", g.min(i.x, b)?), ("max", g.max(i.x, 0.25)?), ("clip", g.clip(i.x, Some(-1.0), None)?)]);

    let positive = g.exp(i.x)?;
    results.extend([("neg", g.neg(i.x)?), ("sqrt", g.sqrt(positive)?), ("reciprocal", g.reciprocal(positive)?)]);
    results.extend([("sigmoid", g.sigmoid(i.x)?), ("tanh", g.tanh(i.x)?), ("erf", g.erf(i.x)?), ("relu", g.relu(i.x)?)]);
    results.extend([("cos", g.cos(i.x)?), ("sin", g.sin(i.x)?), ("softplus", g.softplus(i.x)?), ("softmax", g.softmax(i.x, -1)?)]);
    results.extend([("gelu", g.gelu(i.x, false)?), ("gelu_tanh", g.gelu(i.x, true)?)]);

    results.extend([("mean", g.reduce_mean(i.x, &[-1], true)?), ("sum", g.reduce_sum(i.mask, &[1], false)?)]);
    results.extend([("reduce_max", g.reduce_max(i.x, &[0, 1], false)?), ("cumsum", g.cumsum(i.mask, 1)?)]);
    let (top, top_indices) = g.top_k(i.x, 3, -1)?;
    results.extend([("top", top), ("top_indices", top_indices), ("layer_norm", g.layer_norm(i.x, b, Some(b), 1e-5)?)]);

    results.extend([("gather", g.gather(w, i.ids, 0)?), ("last", g.gather(i.x, -1, 1)?), ("pair", g.gather(i.x, [0, 2], -1)?)]);
    results.push(("gather_elements", g.gather_elements(i.x, top_indices, 2)?));
    let last = g.reduce_max(i.ids, &[1], false)?;
    let last = g.unsqueeze(last, &[1])?;
    results.push(("gather_nd", g.gather_nd(i.x, last, 1)?));
    results.extend([("slice", g.slice(i.x, -1, 4, 12)?), ("recent", g.slice(i.mask, 1, &(&i.total - &sequence), &i.total)?)]);
    let shape = g.shape_of(i.past, 1..4)?;
    results.push(("heads", g.gather(shape, 0, 0)?));
    let wide = g.unsqueeze(i.past, &[2])?;
    let wide = g.expand(wide, &dims![&batch, 2, 3, "past_sequence_length", 4])?;
    let one = g.unsqueeze(b, &[0])?;
    let rows = g.expand(one, &[i.tokens.clone(), 16u64.into()])?;
    results.extend([("repeated", wide), ("rows", rows)]);
    let size = g.size_scalar(&(&i.tokens * 3 + 1))?;
    results.push(("size", size));

    if g.opset() >= 23 {
        let (cos, sin) = (weight(g, "cos_table", &[64, 1]), weight(g, "sin_table", &[64, 1]));
        let options = RotaryOptions { interleaved: true, rotary_dim: Some(2) };
        let rotated = g.rotary(query, cos, sin, i.ids, options)?;
        let angles = g.slice(i.x, 2, 0, 2)?;
        let rotated = g.rotary_at(rotated, angles, angles, RotaryOptions::default())?;
        let options = AttentionOptions { scale: Some(0.5), softcap: Some(30.0), softmax_precision: Some(DType::F32) };
        let attention = g.attention(rotated, present, present, Some(mask), options)?;
        results.extend([("rms_norm", g.rms_norm(i.x, b, 1e-6)?), ("attention", attention)]);
    }
    if g.opset() >= 24 {
        let cache = g.input("cache", DType::F32, &dims!["batch_size", 2, 32, 4])?;
        let start = g.input("cache_position", DType::I64, &dims!["batch_size"])?;
        results.push(("cache_out", g.tensor_scatter(cache, halves[1], start)?));
    }
    for (name, value) in results {
        g.output(name, value)?;
    }
    g.output("x_again", i.x)?;
    Ok(())
}

#[test]
fn models_are_those_that_were_validated() {
    for opset in 21..=24 {
        let metadata = Metadata { producer_version: "0".to_owned(), properties: BTreeMap::from([("opset".to_owned(), opset.to_string())]) };
        let bytes = plansmith_onnx::encode(&every_operator(opset).finish(&metadata).unwrap());
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/every_operator_{opset}.onnx"));
        if std::env::var_os("PLANSMITH_UPDATE").is_some() {
            plansmith_files::write_atomic(&path, &bytes).unwrap();
        }
        assert!(bytes == plansmith_files::read(&path).unwrap(), "{} is not what the builder writes", path.display());
        assert_eq!(plansmith_onnx::decode(&bytes).unwrap(), every_operator(opset).finish(&metadata).unwrap());
    }
}

#[test]
fn the_text_form_reads_like_the_graph() {
    let mut g = Graph::new("tiny", 23).unwrap();
    let (batch, sequence) = (Dim::symbol("batch_size"), Dim::symbol("sequence_length"));
    let tokens = g.define_dim("tokens", &batch * &sequence);
    let ids = g.input("input_ids", DType::I64, &[batch.clone(), sequence.clone()]).unwrap();
    let external = |offset, length| Data::External(ExternalData::new("model.safetensors", offset, length).unwrap());
    let build = |g: &mut Graph| -> Result<Value> {
        let table = g.initializer("model.embed_tokens.weight", DType::F32, &[100, 16], external(1024, 6400))?;
        let norm = g.initializer("model.layers.0.input_layernorm.weight", DType::F32, &[16], external(7424, 64))?;
        let weight = g.initializer("model.layers.0.self_attn.q_proj.weight", DType::F32, &[32, 16], external(7488, 2048))?;
        g.scope("model", |g| {
            let x = g.scope("embed_tokens", |g| g.gather(table, ids, 0))?;
            let x = g.reshape(x, &[tokens.clone(), 16u64.into()])?;
            g.scope("layers.0", |g| {
                let x = g.scope("input_layernorm", |g| g.rms_norm(x, norm, 1e-5))?;
                g.scope("self_attn", |g| {
                    let q = g.scope("q_proj", |g| g.gemm(x, weight, None, true))?;
                    let q = g.reshape(q, &dims![&batch, &sequence, 4, 8])?;
                    let q = g.transpose(q, &[0, 2, 1, 3])?;
                    let halves = g.split(q, -1, &[4, 4])?;
                    let turned = g.neg(halves[1])?;
                    let turned = g.concat(&[turned, halves[0]], -1)?;
                    g.mul(turned, 0.125)
                })
            })
        })
    };
    let q = build(&mut g).unwrap();
    g.output("query", q).unwrap();
    insta::assert_snapshot!(g.to_string());
    g.finish(&Metadata::default()).unwrap();
}
