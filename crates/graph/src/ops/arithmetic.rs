//! Element-wise arithmetic with numpy's broadcasting.

use plansmith_tensor::DType;

use crate::error::{Result, Rule};
use crate::node::{Draft, Output, since};
use crate::shapes::{expect_dtype, expect_same, is_float, is_integer};
use crate::{Dim, Graph, Operand, Value};

fn is_number(dtype: DType) -> bool {
    is_float(dtype) || is_integer(dtype)
}

/// What an operator does to elements that are known as dimensions.
type Fold = fn(&Dim, &Dim) -> Option<Dim>;

impl Graph {
    /// `a + b`. Numbers of one dtype.
    ///
    /// # Errors
    /// Shapes do not broadcast or dtypes differ.
    pub fn add(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Value> {
        self.binary("Add", 14, a.into(), b.into(), |a, b| Some(a + b))
    }

    /// `a - b`. Numbers of one dtype.
    ///
    /// # Errors
    /// Shapes do not broadcast or dtypes differ.
    pub fn sub(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Value> {
        self.binary("Sub", 14, a.into(), b.into(), |a, b| Some(a - b))
    }

    /// `a × b`. Numbers of one dtype.
    ///
    /// # Errors
    /// Shapes do not broadcast or dtypes differ.
    pub fn mul(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Value> {
        self.binary("Mul", 14, a.into(), b.into(), |a, b| Some(a * b))
    }

    /// `a / b`; integers are truncated towards zero. Numbers of one dtype.
    ///
    /// # Errors
    /// Shapes do not broadcast or dtypes differ.
    pub fn div(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Value> {
        self.binary("Div", 14, a.into(), b.into(), |a, b| match b.constant() {
            Some(0) => None,
            _ => a.exact_quotient(b),
        })
    }

    /// `a` to the power of `b`. Floats, or 32 or 64 bit signed integers, of one dtype.
    ///
    /// # Errors
    /// Shapes do not broadcast or dtypes differ.
    pub fn pow(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Value> {
        self.binary("Pow", 15, a.into(), b.into(), |_, _| None)
    }

    /// The smaller of each pair. Numbers of one dtype.
    ///
    /// # Errors
    /// Shapes do not broadcast or dtypes differ.
    pub fn min(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Value> {
        self.binary("Min", 13, a.into(), b.into(), |a, b| Some(Dim::from_constant(a.constant()?.min(b.constant()?))))
    }

    /// The larger of each pair. Numbers of one dtype.
    ///
    /// # Errors
    /// Shapes do not broadcast or dtypes differ.
    pub fn max(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Value> {
        self.binary("Max", 13, a.into(), b.into(), |a, b| Some(Dim::from_constant(a.constant()?.max(b.constant()?))))
    }

    /// `x` limited to `[low, high]`, each of which may be absent.
    ///
    /// # Errors
    /// `x` holds no numbers, or a limit cannot be expressed in its dtype.
    pub fn clip(&mut self, x: Value, low: Option<f64>, high: Option<f64>) -> Result<Value> {
        self.add_node("Clip", since(13), |g, node| {
            node.input(x);
            let dtype = g.dtype(x);
            expect_dtype(dtype, "a number", is_number)?;
            for limit in [low, high] {
                let limit = limit.map(|limit| g.value_of(Operand::Float(limit), dtype)).transpose()?;
                node.optional(limit);
            }
            Ok(Output::new(dtype, g.dims(x)))
        })
    }

    fn binary(&mut self, op: &'static str, version: u32, a: Operand, b: Operand, fold: Fold) -> Result<Value> {
        self.add_node(op, since(version), |g, node| {
            let (a, b) = g.pair(node, a, b)?;
            expect_same(g.dtype(a), g.dtype(b))?;
            match op {
                "Pow" => {
                    expect_dtype(g.dtype(a), "a float, I32 or I64", |found| is_float(found) || matches!(found, DType::I32 | DType::I64))?
                }
                _ => expect_dtype(g.dtype(a), "a number", is_number)?,
            }
            let dims = g.broadcast(&g.dims(a), &g.dims(b))?;
            let content = g.fold(a, b, fold);
            Ok(Output::new(g.dtype(a), dims).with_content(content))
        })
    }

    /// Both operands as inputs of `node`: a plain number takes the dtype of the other side.
    pub(crate) fn pair(&mut self, node: &mut Draft, a: Operand, b: Operand) -> Rule<(Value, Value)> {
        let dtype = self.dtype_of(&a).or_else(|| self.dtype_of(&b)).ok_or("two plain numbers have no dtype; make one a `scalar`")?;
        let a = self.value_of(a, dtype)?;
        node.input(a);
        let b = self.value_of(b, dtype)?;
        node.input(b);
        Ok((a, b))
    }

    /// The elements of a result, where those of both operands are known; a single element meets each of the other side.
    fn fold(&self, a: Value, b: Value, fold: Fold) -> Option<Vec<Dim>> {
        let (a, b) = (self.info(a).content.as_ref()?, self.info(b).content.as_ref()?);
        let at = |side: &[Dim], index: usize| side.get(if side.len() == 1 { 0 } else { index }).cloned();
        (0..a.len().max(b.len())).map(|index| fold(&at(a, index)?, &at(b, index)?)).collect()
    }
}
