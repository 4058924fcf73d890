//! Mistakes in a spec: what a misread config, or a lowering that forgets a field, computes.

use std::mem::swap;

use plansmith_families::{
    Activation, Arrangement, DecoderSpec, Frequencies, Gain, Linear, MlpInput, Norm, NormKind, NormOrder, Pairing, Part, Positions,
    Projections, Residual,
};

use crate::fault::Place::{Layer, Outside};
use crate::fault::{Fault, Place, Seeding};

const fn edit(checkpoint: &'static str, name: &'static str, place: Place, edit: fn(&mut DecoderSpec)) -> Fault {
    Fault { checkpoint, name, place, seeding: Seeding::Spec(edit) }
}

const ATTENTION: &str = "self_attn";
const MLP: &str = "mlp";

/// All of them.
pub(crate) const EDITS: &[Fault] = &[
    edit("llama", "rotation pairs neighbours instead of halves", Layer(0, ATTENTION), |spec| spec.ropes[0].pairing = Pairing::Interleaved),
    edit("llama", "rotation base × 10", Layer(0, ATTENTION), |spec| with_pairs(spec, |index, pairs, f| f * 10f32.powf(-index / pairs))),
    edit("llama", "rotation scaling dropped", Layer(0, ATTENTION), |spec| {
        with_pairs(spec, |index, pairs, _| 10_000f32.powf(-index / pairs));
    }),
    edit("llama", "no rotation in layer 1", Layer(1, ATTENTION), |spec| spec.layers[1].attention.rope = None),
    edit("llama", "eps × 10", Layer(0, ATTENTION), |spec| every_norm(spec, |norm| norm.eps *= 10.0)),
    edit("llama", "norm adds 1 to its weight in layer 1", Layer(1, ATTENTION), |spec| shift(input_norm(spec, 1), 1.0)),
    edit("llama", "score scale dropped in layer 1", Layer(1, ATTENTION), |spec| spec.layers[1].attention.scale = 1.0),
    edit("llama", "SiLU becomes GELU in layer 1", Layer(1, MLP), |spec| spec.layers[1].mlp.activation = Activation::Gelu),
    edit("llama", "gate and up swapped in layer 1", Layer(1, MLP), |spec| {
        if let MlpInput::Gated { gate, up } = &mut spec.layers[1].mlp.input {
            swap(gate, up);
        }
    }),
    edit("llama", "keys and values swapped in layer 2", Layer(2, ATTENTION), |spec| {
        if let Projections::Separate { key, value, .. } = &mut spec.layers[2].attention.projections {
            swap(key, value);
        }
    }),
    edit("llama", "layers 1 and 2 swapped", Layer(1, ATTENTION), |spec| spec.layers.swap(1, 2)),
    edit("llama", "head tied though it is not", Outside("head"), |spec| spec.head.linear.weight = spec.embedding.weight.clone()),
    edit("llama", "final norm dropped", Outside("final_norm"), |spec| spec.final_norm = None),
    edit("llama", "residual taken after the norm in layer 1", Layer(1, MLP), |spec| {
        spec.layers[1].attention_join.residual = Residual::Normed;
    }),
    edit("llama", "a window of 24 in layer 0", Layer(0, ATTENTION), |spec| spec.layers[0].attention.window = Some(24)),
    edit("gemma2", "norms do not add 1 in layer 1", Layer(1, ATTENTION), |spec| shift(input_norm(spec, 1), -1.0)),
    edit("gemma2", "soft cap of scores dropped in layer 1", Layer(1, ATTENTION), |spec| spec.layers[1].attention.softcap = None),
    edit("gemma2", "soft cap of logits dropped", Outside("head"), |spec| spec.head.softcap = None),
    edit("gemma2", "embedding scale dropped", Outside("embedding"), |spec| spec.embedding.scale = 1.0),
    edit("gemma2", "scores scaled by head_dim in layer 1", Layer(1, ATTENTION), |spec| {
        let attention = &mut spec.layers[1].attention;
        attention.scale = 1.0 / (attention.head_dim as f64).sqrt();
    }),
    edit("gemma2", "window dropped in layer 2", Layer(2, ATTENTION), |spec| spec.layers[2].attention.window = None),
    edit("gemma2", "window one too wide in layer 0", Layer(0, ATTENTION), |spec| widen(spec, 0, 1)),
    edit("gemma2", "windows on the other layers", Layer(0, ATTENTION), |spec| {
        let windows: Vec<_> = spec.layers.iter().map(|layer| layer.attention.window).collect();
        for (layer, window) in spec.layers.iter_mut().zip(windows.into_iter().cycle().skip(1)) {
            layer.attention.window = window;
        }
    }),
    edit("gemma2", "norm after attention dropped in layer 1", Layer(1, MLP), |spec| spec.layers[1].attention_join.output_norm = None),
    edit("gemma2", "tanh GELU becomes GELU in layer 1", Layer(1, MLP), |spec| spec.layers[1].mlp.activation = Activation::Gelu),
    edit("gpt2", "biases of q, k and v dropped in layer 1", Layer(1, ATTENTION), |spec| {
        if let Projections::Fused { linear, .. } = &mut spec.layers[1].attention.projections {
            linear.bias = None;
        }
    }),
    edit("gpt2", "bias after attention dropped in layer 2", Layer(2, ATTENTION), |spec| spec.layers[2].attention.output.bias = None),
    edit("gpt2", "bias of the MLP dropped in layer 1", Layer(1, MLP), |spec| spec.layers[1].mlp.down.bias = None),
    edit("gpt2", "learned positions from 1", Outside("embedding"), |spec| {
        if let Some(Positions::Learned { offset, .. }) = &mut spec.embedding.positions {
            *offset = 1;
        }
    }),
    edit("gpt2", "learned positions dropped", Outside("embedding"), |spec| spec.embedding.positions = None),
    edit("gpt2", "queries and keys swapped in the fused matrix of layer 1", Layer(1, ATTENTION), |spec| {
        if let Projections::Fused { order, .. } = &mut spec.layers[1].attention.projections {
            *order = [Part::Key, Part::Query, Part::Value];
        }
    }),
    edit("gpt2", "layer norm without the mean in layer 1", Layer(1, ATTENTION), |spec| input_norm(spec, 1).kind = NormKind::Rms),
    edit("gpt2", "bias of the norm dropped in layer 1", Layer(1, ATTENTION), |spec| input_norm(spec, 1).bias = None),
    edit("gpt2", "tanh GELU becomes ReLU in layer 2", Layer(2, MLP), |spec| spec.layers[2].mlp.activation = Activation::Relu),
    edit("gpt2", "eps × 10", Layer(0, ATTENTION), |spec| every_norm(spec, |norm| norm.eps *= 10.0)),
    edit("gpt_neox", "whole heads rotated", Layer(0, ATTENTION), |spec| {
        let pairs = spec.layers[0].attention.head_dim as usize / 2;
        spec.ropes[0].frequencies = Frequencies::Fixed((0..pairs).map(|index| 10_000f32.powf(-(index as f32) / pairs as f32)).collect());
    }),
    edit("gpt_neox", "rotation pairs neighbours instead of halves", Layer(0, ATTENTION), |spec| {
        spec.ropes[0].pairing = Pairing::Interleaved;
    }),
    edit("gpt_neox", "q, k and v one after another, not head by head, in layer 1", Layer(1, ATTENTION), |spec| {
        if let Projections::Fused { blocks, .. } = &mut spec.layers[1].attention.projections {
            *blocks = 1;
        }
    }),
    edit("gpt_neox", "the MLP reads what attention left in layer 1", Layer(1, MLP), |spec| {
        spec.layers[1].arrangement = Arrangement::Sequential;
    }),
    edit("gpt_neox", "GELU becomes tanh GELU in layer 1", Layer(1, MLP), |spec| spec.layers[1].mlp.activation = Activation::GeluTanh),
    edit("gpt_neox", "bias after attention dropped in layer 0", Layer(0, ATTENTION), |spec| spec.layers[0].attention.output.bias = None),
    edit("granite", "embedding multiplier dropped", Outside("embedding"), |spec| spec.embedding.scale = 1.0),
    edit("granite", "residual multiplier dropped in layer 1", Layer(1, "residual"), |spec| spec.layers[1].mlp_join.scale = 1.0),
    edit("granite", "logits scaling dropped", Outside("head"), |spec| spec.head.scale = 1.0),
    edit("granite", "logits multiplied instead of divided", Outside("head"), |spec| spec.head.scale = 1.0 / spec.head.scale),
    edit("granite", "attention multiplier becomes 1/√head_dim in layer 1", Layer(1, ATTENTION), |spec| {
        let attention = &mut spec.layers[1].attention;
        attention.scale = 1.0 / (attention.head_dim as f64).sqrt();
    }),
    edit("cohere", "rotation pairs halves instead of neighbours", Layer(0, ATTENTION), |spec| spec.ropes[0].pairing = Pairing::Halves),
    edit("cohere", "logit scale dropped", Outside("head"), |spec| spec.head.scale = 1.0),
    edit("cohere", "the MLP reads what attention left in layer 1", Layer(1, MLP), |spec| {
        spec.layers[1].arrangement = Arrangement::Sequential;
    }),
    edit("cohere", "norms of queries and keys dropped in layer 1", Layer(1, ATTENTION), |spec| spec.layers[1].attention.head_norms = None),
    edit("cohere", "layer norm without the mean in layer 1", Layer(1, ATTENTION), |spec| {
        // Both blocks read it.
        for join in [true, false] {
            let layer = &mut spec.layers[1];
            let join = if join { &mut layer.attention_join } else { &mut layer.mlp_join };
            join.input_norm.iter_mut().for_each(|norm| norm.kind = NormKind::Rms);
        }
    }),
    edit("qwen3", "window one too narrow in layer 1", Layer(1, ATTENTION), |spec| widen(spec, 1, -1)),
    edit("qwen3", "norm of queries dropped in layer 1", Layer(1, ATTENTION), |spec| {
        if let Some(norms) = &mut spec.layers[1].attention.head_norms {
            norms.query.gain = Gain::One;
        }
    }),
    edit("qwen3", "norm of keys without its weight in layer 2", Layer(2, ATTENTION), |spec| {
        if let Some(norms) = &mut spec.layers[2].attention.head_norms {
            norms.key.gain = Gain::One;
        }
    }),
    edit("qwen3", "queries and keys normed after rotation in layer 1", Layer(1, ATTENTION), |spec| {
        if let Some(norms) = &mut spec.layers[1].attention.head_norms {
            norms.order = NormOrder::AfterRotation;
        }
    }),
    edit("qwen3", "bias of keys dropped in layer 1", Layer(1, ATTENTION), |spec| {
        if let Projections::Separate { key, .. } = &mut spec.layers[1].attention.projections {
            *key = Linear { bias: None, ..key.clone() };
        }
    }),
    edit("qwen3", "rotation base / 100", Layer(0, ATTENTION), |spec| with_pairs(spec, |index, pairs, f| f * 100f32.powf(index / pairs))),
];

/// Gives every pair of rotation 0 the frequency `new(index, pairs, frequency)`.
fn with_pairs(spec: &mut DecoderSpec, new: fn(f32, f32, f32) -> f32) {
    if let Frequencies::Fixed(frequencies) = &mut spec.ropes[0].frequencies {
        let pairs = frequencies.len() as f32;
        for (index, frequency) in frequencies.iter_mut().enumerate() {
            *frequency = new(index as f32, pairs, *frequency);
        }
    }
}

/// The norm before attention. Every checkpoint that is asked for it has one.
#[expect(clippy::expect_used, reason = "a fault that cannot be seeded is a mistake in this table")]
fn input_norm(spec: &mut DecoderSpec, layer: usize) -> &mut Norm {
    spec.layers[layer].attention_join.input_norm.as_mut().expect("a norm before attention")
}

fn shift(norm: &mut Norm, by: f64) {
    if let Gain::Weight { offset, .. } = &mut norm.gain {
        *offset += by;
    }
}

fn widen(spec: &mut DecoderSpec, layer: usize, by: i64) {
    let window = &mut spec.layers[layer].attention.window;
    *window = window.map(|width| width.saturating_add_signed(by));
}

fn every_norm(spec: &mut DecoderSpec, change: fn(&mut Norm)) {
    for layer in &mut spec.layers {
        for join in [&mut layer.attention_join, &mut layer.mlp_join] {
            join.input_norm.iter_mut().chain(&mut join.output_norm).for_each(change);
        }
    }
    spec.final_norm.iter_mut().for_each(change);
}
