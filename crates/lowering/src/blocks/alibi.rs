//! Biases of scores by distance.

use plansmith_families::{Alibi, DecoderSpec};
use plansmith_graph::{Data, Graph, Value};
use plansmith_tensor::DType;

use crate::Error;
use crate::context::Context;

/// The biases that occur, fp32 `[batch or 1, heads, 1, total]`.
pub(crate) struct Biases(Vec<(Alibi, Value)>);

impl Biases {
    pub(crate) fn of(&self, alibi: &Alibi) -> Option<Value> {
        self.0.iter().find(|(known, _)| known == alibi).map(|&(_, value)| value)
    }
}

/// Computes each kind once, however many layers share it.
pub(crate) fn all(g: &mut Graph, cx: &Context<'_>, spec: &DecoderSpec) -> Result<Biases, Error> {
    g.scope("model/alibi", |g| {
        let mut biases = Biases(Vec::new());
        for alibi in spec.layers.iter().filter_map(|layer| layer.attention.alibi.as_ref()) {
            if biases.of(alibi).is_none() {
                let bias = bias(g, cx, alibi, biases.0.len())?;
                biases.0.push((alibi.clone(), bias));
            }
        }
        Ok(biases)
    })
}

fn bias(g: &mut Graph, cx: &Context<'_>, alibi: &Alibi, index: usize) -> Result<Value, Error> {
    let bytes: Vec<u8> = alibi.slopes().iter().flat_map(|slope| slope.to_le_bytes()).collect();
    let shape = [1, alibi.slopes().len() as u64, 1, 1];
    let slopes = g.initializer(&format!("model.alibi.{index}.slopes"), DType::F32, &shape, Data::Inline(bytes.into()))?;
    let positions = match alibi {
        Alibi::ByColumn(_) => {
            let columns = g.range(0, &cx.dims.total, 1)?;
            g.unsqueeze(columns, &[0, 1, 2])?
        }
        Alibi::ByAttended(_) => {
            let counted = g.cumsum(cx.attention_mask, 1)?;
            let before = g.sub(counted, 1)?;
            let masked = g.mul(before, cx.attention_mask)?;
            g.unsqueeze(masked, &[1, 2])?
        }
    };
    let positions = g.cast(positions, DType::F32)?;
    Ok(g.mul(positions, slopes)?)
}
