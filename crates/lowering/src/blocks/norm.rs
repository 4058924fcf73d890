//! Root-mean-square norm.

use plansmith_families::Norm;
use plansmith_graph::{Graph, Value};
use plansmith_tensor::DType;

use crate::context::Context;
use crate::{Error, Form};

/// Norm over the last axis; the mean of squares is taken in fp32 whatever `x` is in.
pub(crate) fn apply(g: &mut Graph, cx: &Context<'_>, name: &str, norm: &Norm, x: Value) -> Result<Value, Error> {
    g.scope(name, |g| {
        let weight = cx.weight(g, &norm.weight)?;
        if cx.form == Form::Composite {
            // Its stash type is fp32 by default.
            return Ok(g.rms_norm(x, weight, norm.eps as f32)?);
        }
        let wide = g.cast(x, DType::F32)?;
        // Pow, not Mul(x, x): ONNX Runtime's offline optimiser fuses the one and crashes on the other.
        let square = g.pow(wide, 2.0)?;
        let mean = g.reduce_mean(square, &[-1], true)?;
        let shifted = g.add(mean, norm.eps)?;
        let root = g.sqrt(shifted)?;
        let scaled = g.div(wide, root)?;
        let narrow = g.cast(scaled, cx.compute)?;
        Ok(g.mul(narrow, weight)?)
    })
}
