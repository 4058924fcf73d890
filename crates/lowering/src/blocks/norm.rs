//! Root-mean-square and layer norms.

use plansmith_families::{Gain, Norm, NormKind};
use plansmith_graph::{Data, Graph, Value};
use plansmith_tensor::DType;

use crate::context::Context;
use crate::{Error, Form};

/// Norm over the last axis; means are taken in fp32 whatever `x` is in.
pub(crate) fn apply(g: &mut Graph, cx: &Context<'_>, name: &str, norm: &Norm, x: Value) -> Result<Value, Error> {
    g.scope(name, |g| {
        // In 16 bits `1 + weight` would lose what the weight says: the composite operators have no place for it in fp32.
        let shifted = matches!(norm.gain, Gain::Weight { offset, .. } if offset != 0.0) && cx.compute != DType::F32;
        if cx.form == Form::Primitive || shifted {
            return primitive(g, cx, norm, x);
        }
        let one_gain = matches!(&norm.gain, Gain::Weight { weight, .. } if weight.shape.len() == 1);
        let own = gain(g, cx, norm, cx.compute)?;
        let (scale, after) = match own {
            Some(own) if one_gain => (own, None),
            after => (ones(g, cx, norm.width)?, after),
        };
        // The operators' stash type is fp32 by default.
        let normed = match norm.kind {
            NormKind::Rms => g.rms_norm(x, scale, norm.eps as f32)?,
            NormKind::Layer if after.is_none() => {
                let bias = norm.bias.as_ref().map(|bias| cx.weight(g, bias)).transpose()?;
                return Ok(g.layer_norm(x, scale, bias, norm.eps as f32)?);
            }
            NormKind::Layer => g.layer_norm(x, scale, None, norm.eps as f32)?,
        };
        let scaled = after.map_or(Ok(normed), |after| g.mul(normed, after))?;
        biased(g, cx, norm, scaled)
    })
}

fn biased(g: &mut Graph, cx: &Context<'_>, norm: &Norm, x: Value) -> Result<Value, Error> {
    let Some(bias) = &norm.bias else { return Ok(x) };
    let bias = cx.weight(g, bias)?;
    Ok(g.add(x, bias)?)
}

/// The factors, `[width]` or `[heads, width]`; `None` where all are 1.
fn gain(g: &mut Graph, cx: &Context<'_>, norm: &Norm, dtype: DType) -> Result<Option<Value>, Error> {
    match &norm.gain {
        Gain::One => Ok(None),
        Gain::Weight { weight, offset } => {
            let stored = if dtype == cx.compute { cx.weight(g, weight)? } else { cx.stored(g, weight)? };
            let gain = g.cast(stored, dtype)?;
            Ok(Some(if *offset == 0.0 { gain } else { g.add(gain, *offset)? }))
        }
        Gain::PerHead(weights) => {
            let mut rows = Vec::new();
            for weight in weights {
                let row = cx.stored(g, weight)?;
                let row = g.cast(row, dtype)?;
                rows.push(g.unsqueeze(row, &[0])?);
            }
            Ok(Some(g.concat(&rows, 0)?))
        }
    }
}

fn ones(g: &mut Graph, cx: &Context<'_>, width: u64) -> Result<Value, Error> {
    let one = match cx.compute {
        DType::F16 => vec![0x00, 0x3c],
        DType::BF16 => vec![0x80, 0x3f],
        _ => 1f32.to_le_bytes().to_vec(),
    };
    let bytes = one.repeat(width as usize);
    Ok(g.initializer(&format!("ones.{width}"), cx.compute, &[width], Data::Inline(bytes.into()))?)
}

fn primitive(g: &mut Graph, cx: &Context<'_>, norm: &Norm, x: Value) -> Result<Value, Error> {
    let wide = g.cast(x, DType::F32)?;
    let centred = match norm.kind {
        NormKind::Rms => wide,
        NormKind::Layer => {
            let mean = g.reduce_mean(wide, &[-1], true)?;
            g.sub(wide, mean)?
        }
    };
    // Pow, not Mul(x, x): ONNX Runtime's offline optimiser fuses the one and crashes on the other.
    let square = g.pow(centred, 2.0)?;
    let mean = g.reduce_mean(square, &[-1], true)?;
    let shifted = g.add(mean, norm.eps)?;
    let root = g.sqrt(shifted)?;
    let stays_wide = match &norm.gain {
        Gain::Weight { weight, offset } => *offset != 0.0 || weight.shape.len() > 1,
        Gain::One | Gain::PerHead(_) => true,
    };
    let normed = if stays_wide {
        // Factors first: rten fuses a product behind the quotient into a norm whose factors cannot differ by head.
        let gain = gain(g, cx, norm, DType::F32)?;
        let product = gain.map_or(Ok(centred), |gain| g.mul(centred, gain))?;
        let scaled = g.div(product, root)?;
        g.cast(scaled, cx.compute)?
    } else {
        let scaled = g.div(centred, root)?;
        let narrow = g.cast(scaled, cx.compute)?;
        let gain = gain(g, cx, norm, cx.compute)?;
        gain.map_or(Ok(narrow), |gain| g.mul(narrow, gain))?
    };
    biased(g, cx, norm, normed)
}

/// `x` itself where there is no norm.
pub(crate) fn optional(g: &mut Graph, cx: &Context<'_>, name: &str, norm: Option<&Norm>, x: Value) -> Result<Value, Error> {
    norm.map_or(Ok(x), |norm| apply(g, cx, name, norm, x))
}
