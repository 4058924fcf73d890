//! Giving every weight of a spec another name.

use super::{Activation, DecoderSpec, Gain, Linear, MlpInput, Norm, Positions, Projections, Weight};

impl DecoderSpec {
    /// Calls `rename` with every weight that [`DecoderSpec::weights`] lists.
    pub(crate) fn for_each_weight(&mut self, rename: &mut dyn FnMut(&mut Weight)) {
        rename(&mut self.embedding.weight);
        self.embedding.project.iter_mut().for_each(|each| linear(each, rename));
        if let Some(Positions::Learned { weight, .. }) = &mut self.embedding.positions {
            rename(weight);
        }
        self.embedding.norm.iter_mut().for_each(|each| norm(each, rename));
        for layer in &mut self.layers {
            for join in [&mut layer.attention_join, &mut layer.mlp_join] {
                let norms = [&mut join.input_norm, &mut join.output_norm, &mut join.stream_norm];
                norms.into_iter().flatten().for_each(|each| norm(each, rename));
            }
            let attention = &mut layer.attention;
            match &mut attention.projections {
                Projections::Separate { query, key, value } => [query, key, value].into_iter().for_each(|each| linear(each, rename)),
                Projections::Fused { linear: fused, .. } => linear(fused, rename),
            }
            if let Some(norms) = &mut attention.head_norms {
                norm(&mut norms.query, rename);
                norm(&mut norms.key, rename);
            }
            attention.sinks.iter_mut().for_each(&mut *rename);
            attention.merged_norm.iter_mut().for_each(|each| norm(each, rename));
            linear(&mut attention.output, rename);
            let mlp = &mut layer.mlp;
            match &mut mlp.input {
                MlpInput::Plain { up } => linear(up, rename),
                MlpInput::Gated { gate, up } => [gate, up].into_iter().for_each(|each| linear(each, rename)),
                MlpInput::FusedGated { gate_up } => linear(gate_up, rename),
            }
            if let Activation::Xielu(xielu) = &mut mlp.activation {
                [&mut xielu.alpha_p, &mut xielu.alpha_n, &mut xielu.beta, &mut xielu.eps].into_iter().for_each(&mut *rename);
            }
            mlp.inner_norm.iter_mut().for_each(|each| norm(each, rename));
            linear(&mut mlp.down, rename);
        }
        self.final_norm.iter_mut().for_each(|each| norm(each, rename));
        if let Some(transform) = &mut self.head.transform {
            linear(&mut transform.linear, rename);
            transform.norm.iter_mut().for_each(|each| norm(each, rename));
        }
        linear(&mut self.head.linear, rename);
    }
}

fn linear(linear: &mut Linear, rename: &mut dyn FnMut(&mut Weight)) {
    rename(&mut linear.weight);
    linear.bias.iter_mut().for_each(rename);
}

fn norm(norm: &mut Norm, rename: &mut dyn FnMut(&mut Weight)) {
    match &mut norm.gain {
        Gain::One => {}
        Gain::Weight { weight, .. } => rename(weight),
        Gain::PerHead(weights) => weights.iter_mut().for_each(&mut *rename),
    }
    norm.bias.iter_mut().for_each(rename);
}
