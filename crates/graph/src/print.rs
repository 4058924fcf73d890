//! The text form that snapshots and errors show.

use std::fmt::{self, Write as _};

use crate::node::{Attribute, Node};
use crate::value::{Origin, Type};
use crate::{Data, Dim, Graph, Value};

impl Graph {
    /// `dim` by its defined name, where it has one.
    pub(crate) fn dim_text(&self, dim: &Dim) -> String {
        match self.definitions.iter().find(|(_, defined)| defined == dim && dim.constant().is_none()) {
            Some((name, _)) => name.to_string(),
            None => dim.to_string(),
        }
    }

    fn dims_text(&self, dims: &[Dim]) -> String {
        let texts: Vec<String> = dims.iter().map(|dim| self.dim_text(dim)).collect();
        format!("[{}]", texts.join(", "))
    }

    /// `f32[batch_size, 576]`.
    pub(crate) fn show(&self, r#type: &Type) -> String {
        format!("{}{}", r#type.dtype.name().to_ascii_lowercase(), self.dims_text(&r#type.dims))
    }

    /// `Gemm(a, b, transB=1)`, each operand as `operand` writes it.
    pub(crate) fn call_text(
        &self,
        op: &str,
        inputs: &[Option<Value>],
        attributes: &[(&'static str, Attribute)],
        operand: impl Fn(&Self, Value) -> String,
    ) -> String {
        let mut arguments: Vec<String> =
            inputs.iter().map(|input| input.map_or_else(|| "-".to_owned(), |value| operand(self, value))).collect();
        arguments.extend(attributes.iter().map(|(name, attribute)| match attribute {
            Attribute::Int(value) => format!("{name}={value}"),
            Attribute::Ints(values) => format!("{name}={values:?}"),
            Attribute::Float(value) => format!("{name}={value:?}"),
            Attribute::Text(value) => format!("{name}={value}"),
        }));
        format!("{op}({})", arguments.join(", "))
    }

    /// `%12` for what a node computes, `@name` for an initialiser, the number itself for a constant, the name of an input.
    fn operand_text(&self, value: Value, numbers: &[usize]) -> String {
        let info = self.info(value);
        match info.origin {
            Origin::Input => info.name.clone(),
            Origin::Node => format!("%{}", numbers[value.0 as usize]),
            Origin::Initializer(index) => self.initializers[index].literal.clone().unwrap_or_else(|| format!("@{}", info.name)),
        }
    }

    fn node_call(&self, node: &Node, numbers: &[usize]) -> String {
        let shape_operand = (node.op == "Reshape").then(|| node.inputs.get(1).copied().flatten()).flatten();
        self.call_text(node.op, &node.inputs, &node.attributes, |graph, value| match shape_operand {
            Some(shape) if shape == value => graph.dims_text(&graph.info(node.outputs[0]).r#type.dims),
            _ => graph.operand_text(value, numbers),
        })
    }
}

/// Inputs, initialisers, one line a node with the scope where it changes, outputs.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |value: Value| format!("{}: {}", self.info(value).name, self.show(&self.info(value).r#type));
        for &input in &self.inputs {
            writeln!(f, "input  {}", named(input))?;
        }
        for initializer in self.initializers.iter().filter(|initializer| initializer.literal.is_none()) {
            let place = match &initializer.data {
                Data::Inline(bytes) => format!("{} bytes inline", bytes.len()),
                Data::External(data) => format!("{} at {}", data.location, data.offset),
            };
            writeln!(f, "init   @{} = {place}", named(initializer.value))?;
        }
        let mut numbers = vec![0; self.values.len()];
        let mut next = 0;
        let mut rows: Vec<(String, String, &str)> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let mut left = String::new();
            for (index, &output) in node.outputs.iter().enumerate() {
                numbers[output.0 as usize] = next;
                write!(left, "{}%{next}", if index == 0 { "" } else { ", " })?;
                next += 1;
            }
            write!(left, " = {}", self.node_call(node, &numbers))?;
            let types: Vec<String> = node.outputs.iter().map(|&output| self.show(&self.info(output).r#type)).collect();
            rows.push((left, types.join(", "), &node.scope));
        }
        let width = |column: fn(&(String, String, &str)) -> usize| rows.iter().map(column).max().unwrap_or(0);
        let (left_width, type_width) = (width(|row| row.0.chars().count()), width(|row| row.1.chars().count()));
        let mut scope = "/";
        for (left, types, row_scope) in &rows {
            if *row_scope == scope {
                writeln!(f, "{left:left_width$} : {types}")?;
            } else {
                writeln!(f, "{left:left_width$} : {types:type_width$}  {row_scope}")?;
                scope = row_scope;
            }
        }
        for &output in &self.outputs {
            writeln!(f, "output {} = {}", named(output), self.operand_text(output, &numbers))?;
        }
        Ok(())
    }
}
