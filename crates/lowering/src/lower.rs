//! The loop over layers.

use plansmith_families::{Arrangement, Join, Residual};
use plansmith_graph::{Graph, Metadata, Value};

use crate::blocks::attention::LayerInputs;
use crate::blocks::{alibi, attention, embedding, group_query, head, mask, mlp, norm, rope};
use crate::context::Context;
use crate::{Error, Float, Form, LogitsAt, Source, Target, WeightTable};

/// A graph, and where the weights that it points to will lie.
#[derive(Debug)]
pub struct Lowered {
    /// Inputs, nodes and outputs as the contract names them.
    pub graph: Graph,
    /// Where each weight lies.
    pub table: WeightTable,
    /// What the graph computes in.
    pub compute: Float,
    /// Composite or primitive operators.
    pub form: Form,
    /// ONNX operator set.
    pub opset: u32,
    /// Whether a runtime may write keys and values into the cache that it was given, which may then be longer than what it holds.
    pub shares_buffer: bool,
    /// Where the graph is not what the dialect promises, and why.
    pub notes: Vec<String>,
    /// Slots of a static cache; `None` where the cache grows.
    pub slots: Option<u64>,
}

/// Builds the graph of `source` under `target`. Reads no payload.
///
/// # Errors
/// The target does not fit the source.
pub fn lower(source: &Source, target: &Target) -> Result<Lowered, Error> {
    let spec = &source.loaded.spec;
    let table = WeightTable::new(spec, &source.checkpoint, target)?;
    let compute = target.compute.unwrap_or(table.storage);
    let (form, opset) = target.form(spec, compute)?;
    let slots = target.kv.slots(source, compute)?;
    let mut graph = Graph::new("decoder", opset)?;
    let g = &mut graph;
    let shares_buffer = group_query::takes_all(spec, target.dialect);
    let longest = slots.or(source.loaded.max_length).unwrap_or(spec.max_positions);
    let cx = &Context::new(g, (form, target.dialect), compute.dtype(), (slots, longest), shares_buffer, &table)?;

    let pasts = cx.pasts(g, spec)?;
    let rotations = rope::tables(g, cx, spec)?;
    let masks = mask::by_window(g, cx, spec)?;
    let biases = alibi::all(g, cx, spec)?;
    let groups = group_query::shared(g, cx, spec, &masks)?;
    let mut x = embedding::lookup(g, cx, &spec.embedding)?;
    let mut presents = Vec::new();
    for (index, (layer, past)) in spec.layers.iter().zip(pasts).enumerate() {
        g.scope(&format!("model/layers.{index}"), |g| -> Result<(), Error> {
            let attention = &layer.attention;
            let inputs = LayerInputs {
                past,
                mask: masks.of(cx, attention),
                rotation: attention.rope.map(|rope| rotations[&rope]),
                bias: attention.alibi.as_ref().and_then(|alibi| biases.of(alibi)),
                group: groups.as_ref().and_then(|groups| groups.of(attention)),
            };
            let normed = norm::optional(g, cx, "input_layernorm", layer.attention_join.input_norm.as_ref(), x)?;
            let attended = attention::apply(g, cx, attention, &inputs, normed)?;
            presents.push(attended.present);
            let before = x;
            x = join(g, cx, "attention", &layer.attention_join, (x, normed), attended.output)?;
            let stream = match layer.arrangement {
                Arrangement::Sequential => x,
                Arrangement::Parallel => before,
            };
            let shared = layer.arrangement == Arrangement::Parallel && layer.mlp_join.input_norm == layer.attention_join.input_norm;
            let normed = match shared {
                true => normed,
                false => norm::optional(g, cx, "post_attention_layernorm", layer.mlp_join.input_norm.as_ref(), stream)?,
            };
            let fed = mlp::apply(g, cx, &layer.mlp, normed)?;
            x = join(g, cx, "mlp", &layer.mlp_join, (x, normed), fed)?;
            Ok(())
        })?;
    }
    let logits = head::apply(g, cx, spec, x, target.logits == LogitsAt::Last)?;
    g.output("logits", logits)?;
    for (index, present) in presents.iter().enumerate() {
        g.output(&format!("present.{index}.key"), present.key)?;
        g.output(&format!("present.{index}.value"), present.value)?;
    }
    let notes = group_query::notes(spec, target.dialect);
    Ok(Lowered { graph, table, compute, form, opset, shares_buffer, notes, slots })
}

/// The stream after a block gave `result`; `x` is the stream that it is added to, `normed` what the block read.
fn join(g: &mut Graph, cx: &Context<'_>, name: &str, join: &Join, (x, normed): (Value, Value), result: Value) -> Result<Value, Error> {
    let result = norm::optional(g, cx, &format!("{name}_output_norm"), join.output_norm.as_ref(), result)?;
    let result = if join.scale == 1.0 { result } else { g.mul(result, join.scale)? };
    let residual = match join.residual {
        Residual::Stream => x,
        Residual::Normed => normed,
    };
    let sum = g.add(residual, result)?;
    norm::optional(g, cx, &format!("{name}_stream_norm"), join.stream_norm.as_ref(), sum)
}

impl Lowered {
    /// What the graph's metadata says: family, version, options, and digests of what it was made from.
    pub fn metadata(&self, source: &Source, target: &Target, version: &str) -> Metadata {
        let lengths = [("switch_length", source.loaded.spec.switch_length()), ("max_length", self.slots.or(source.loaded.max_length))];
        let lengths = lengths.into_iter().filter_map(|(key, length)| Some((key, length?.to_string())));
        let entries = [
            ("version", version.to_owned()),
            ("model_type", source.loaded.model_type.to_owned()),
            ("architecture", source.loaded.architecture.to_owned()),
            ("storage", target.storage.map_or_else(|| "source".into(), |storage| storage.to_string())),
            ("compute", self.compute.to_string()),
            ("dialect", format!("{:?}", target.dialect).to_lowercase()),
            ("form", format!("{:?}", self.form).to_lowercase()),
            ("logits", format!("{:?}", target.logits).to_lowercase()),
            ("kv", format!("{:?}", target.kv).to_lowercase()),
            ("max_positions", source.loaded.spec.max_positions.to_string()),
            ("config_sha256", source.config_digest.to_string()),
            ("headers_sha256", source.checkpoint.headers_digest().to_string()),
        ];
        let properties = entries.into_iter().chain(lengths).map(|(key, value)| (format!("plansmith.{key}"), value)).collect();
        Metadata { producer_version: version.to_owned(), properties }
    }
}
