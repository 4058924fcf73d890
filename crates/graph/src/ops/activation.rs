//! Element-wise functions of floats, and softmax.

use plansmith_tensor::DType;

use crate::error::Result;
use crate::node::{Output, since};
use crate::shapes::{axis_of, expect_dtype, is_float};
use crate::{Graph, Value};

/// `x` is any shape of a float dtype, and so is the result.
macro_rules! unary {
    ($($(#[$doc:meta])* $method:ident = $op:literal since $version:literal;)*) => {
        impl Graph {
            $(
                $(#[$doc])*
                /// Any shape; returns the same.
                ///
                /// # Errors
                /// The dtype is no float.
                pub fn $method(&mut self, x: Value) -> Result<Value> {
                    self.float_unary($op, $version, x)
                }
            )*
        }
    };
}

unary! {
    /// `-x`.
    neg = "Neg" since 13;
    /// `√x`.
    sqrt = "Sqrt" since 13;
    /// `1 / x`.
    reciprocal = "Reciprocal" since 13;
    /// `1 / (1 + e⁻ˣ)`.
    sigmoid = "Sigmoid" since 13;
    /// Hyperbolic tangent.
    tanh = "Tanh" since 13;
    /// The error function.
    erf = "Erf" since 13;
    /// `eˣ`.
    exp = "Exp" since 13;
    /// Natural logarithm.
    log = "Log" since 13;
    /// The largest integer that is not above.
    floor = "Floor" since 13;
    /// Cosine of radians. bfloat16 from opset 22 on.
    cos = "Cos" since 7;
    /// Sine of radians. bfloat16 from opset 22 on.
    sin = "Sin" since 7;
    /// `max(x, 0)`.
    relu = "Relu" since 14;
    /// `ln(1 + eˣ)`. bfloat16 from opset 22 on.
    softplus = "Softplus" since 1;
}

impl Graph {
    fn float_unary(&mut self, op: &'static str, version: u32, x: Value) -> Result<Value> {
        // Versions before 22 of these three leave bfloat16 out.
        let version = match (op, self.dtype(x)) {
            ("Softplus" | "Cos" | "Sin", DType::BF16) => 22,
            _ => version,
        };
        self.add_node(op, since(version), |g, node| {
            node.input(x);
            expect_dtype(g.dtype(x), "a float", is_float)?;
            Ok(Output::new(g.dtype(x), g.dims(x)))
        })
    }

    /// `x · Φ(x)`; with `tanh` the approximation `x/2 · (1 + tanh(√(2/π)(x + 0.044715 x³)))`. Any shape; returns the same.
    ///
    /// # Errors
    /// The dtype is no float.
    pub fn gelu(&mut self, x: Value, tanh: bool) -> Result<Value> {
        self.add_node("Gelu", since(20), |g, node| {
            node.input(x).text("approximate", if tanh { "tanh" } else { "none" });
            expect_dtype(g.dtype(x), "a float", is_float)?;
            Ok(Output::new(g.dtype(x), g.dims(x)))
        })
    }

    /// `eˣ / Σ eˣ` along `axis` (negative: from the end). Any shape; returns the same.
    ///
    /// # Errors
    /// The dtype is no float, or there is no such axis.
    pub fn softmax(&mut self, x: Value, axis: i64) -> Result<Value> {
        self.add_node("Softmax", since(13), |g, node| {
            node.input(x).int("axis", axis);
            expect_dtype(g.dtype(x), "a float", is_float)?;
            let dims = g.dims(x);
            axis_of(axis, dims.len())?;
            Ok(Output::new(g.dtype(x), dims))
        })
    }

    /// `x` converted to `dtype`; `x` itself where it has it already.
    ///
    /// # Errors
    /// The dtype has no ONNX counterpart.
    pub fn cast(&mut self, x: Value, dtype: DType) -> Result<Value> {
        if self.dtype(x) == dtype {
            return Ok(x);
        }
        self.add_node("Cast", since(19), |g, node| {
            node.input(x);
            let number = plansmith_onnx::data_type(dtype).ok_or_else(|| format!("ONNX has no dtype {dtype}"))?;
            node.int("to", i64::from(number));
            Ok(Output::new(dtype, g.dims(x)))
        })
    }
}
