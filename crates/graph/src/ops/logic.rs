//! Comparisons, boolean algebra, selection.

use plansmith_tensor::DType;

use crate::error::Result;
use crate::node::{Output, since};
use crate::shapes::{expect_dtype, expect_same};
use crate::{Graph, Operand, Value};

impl Graph {
    /// `a = b`, as bool.
    ///
    /// # Errors
    /// Shapes do not broadcast or dtypes differ.
    pub fn equal(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Value> {
        self.compare("Equal", 19, a.into(), b.into())
    }

    /// `a < b`, as bool.
    ///
    /// # Errors
    /// Shapes do not broadcast, dtypes differ or are bool.
    pub fn less(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Value> {
        self.compare("Less", 13, a.into(), b.into())
    }

    /// `a ≤ b`, as bool.
    ///
    /// # Errors
    /// Shapes do not broadcast, dtypes differ or are bool.
    pub fn less_or_equal(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Value> {
        self.compare("LessOrEqual", 16, a.into(), b.into())
    }

    /// `a > b`, as bool.
    ///
    /// # Errors
    /// Shapes do not broadcast, dtypes differ or are bool.
    pub fn greater(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Value> {
        self.compare("Greater", 13, a.into(), b.into())
    }

    /// `a ≥ b`, as bool.
    ///
    /// # Errors
    /// Shapes do not broadcast, dtypes differ or are bool.
    pub fn greater_or_equal(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Value> {
        self.compare("GreaterOrEqual", 16, a.into(), b.into())
    }

    fn compare(&mut self, op: &'static str, version: u32, a: Operand, b: Operand) -> Result<Value> {
        self.add_node(op, since(version), |g, node| {
            let (a, b) = g.pair(node, a, b)?;
            expect_same(g.dtype(a), g.dtype(b))?;
            if op != "Equal" {
                expect_dtype(g.dtype(a), "a number", |dtype| dtype != DType::Bool)?;
            }
            Ok(Output::new(DType::Bool, g.broadcast(&g.dims(a), &g.dims(b))?))
        })
    }

    /// `a ∧ b`. Bool.
    ///
    /// # Errors
    /// Shapes do not broadcast or a dtype is not bool.
    pub fn and(&mut self, a: Value, b: Value) -> Result<Value> {
        self.boolean("And", a, b)
    }

    /// `a ∨ b`. Bool.
    ///
    /// # Errors
    /// Shapes do not broadcast or a dtype is not bool.
    pub fn or(&mut self, a: Value, b: Value) -> Result<Value> {
        self.boolean("Or", a, b)
    }

    fn boolean(&mut self, op: &'static str, a: Value, b: Value) -> Result<Value> {
        self.add_node(op, since(7), |g, node| {
            node.input(a).input(b);
            for side in [a, b] {
                expect_dtype(g.dtype(side), "BOOL", |dtype| dtype == DType::Bool)?;
            }
            Ok(Output::new(DType::Bool, g.broadcast(&g.dims(a), &g.dims(b))?))
        })
    }

    /// `¬x`. Bool.
    ///
    /// # Errors
    /// The dtype is not bool.
    pub fn not(&mut self, x: Value) -> Result<Value> {
        self.add_node("Not", since(1), |g, node| {
            node.input(x);
            expect_dtype(g.dtype(x), "BOOL", |dtype| dtype == DType::Bool)?;
            Ok(Output::new(DType::Bool, g.dims(x)))
        })
    }

    /// `a` where `condition` (bool) holds, `b` elsewhere; the three broadcast. A plain number takes the dtype of the other side.
    ///
    /// # Errors
    /// Shapes do not broadcast, dtypes of `a` and `b` differ, or the condition is not bool.
    pub fn select(&mut self, condition: Value, a: impl Into<Operand>, b: impl Into<Operand>) -> Result<Value> {
        let (a, b) = (a.into(), b.into());
        self.add_node("Where", since(16), |g, node| {
            node.input(condition);
            let (a, b) = g.pair(node, a, b)?;
            expect_dtype(g.dtype(condition), "BOOL (the condition)", |dtype| dtype == DType::Bool)?;
            expect_same(g.dtype(a), g.dtype(b))?;
            let dims = g.broadcast(&g.broadcast(&g.dims(condition), &g.dims(a))?, &g.dims(b))?;
            Ok(Output::new(g.dtype(a), dims))
        })
    }
}
