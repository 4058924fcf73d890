//! Nodes, and the one place where they are added.

use std::sync::Arc;

use plansmith_tensor::DType;

use crate::error::{Error, Result, Rule};
use crate::value::{Origin, Type, ValueInfo};
use crate::{Dim, Graph, Value};

/// An operator applied to values.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) scope: String,
    pub(crate) domain: &'static str,
    pub(crate) op: &'static str,
    /// `None` is an optional input that is absent.
    pub(crate) inputs: Vec<Option<Value>>,
    pub(crate) outputs: Vec<Value>,
    pub(crate) attributes: Vec<(&'static str, Attribute)>,
}

/// A compile-time argument of a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Attribute {
    Int(i64),
    Ints(Vec<i64>),
    Float(f32),
    Text(&'static str),
}

/// Which operator set an operator belongs to, and the first version that has it in the form we emit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since {
    pub(crate) domain: &'static str,
    pub(crate) version: u32,
}

/// The standard domain, from operator set `version` on.
pub(crate) const fn since(version: u32) -> Since {
    Since { domain: "", version }
}

/// A node that is being described.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    inputs: Vec<Option<Value>>,
    attributes: Vec<(&'static str, Attribute)>,
}

impl Draft {
    pub(crate) fn input(&mut self, value: Value) -> &mut Self {
        self.inputs.push(Some(value));
        self
    }

    pub(crate) fn inputs(&mut self, values: impl IntoIterator<Item = Value>) -> &mut Self {
        self.inputs.extend(values.into_iter().map(Some));
        self
    }

    pub(crate) fn optional(&mut self, value: Option<Value>) -> &mut Self {
        self.inputs.push(value);
        self
    }

    pub(crate) fn int(&mut self, name: &'static str, value: i64) -> &mut Self {
        self.attributes.push((name, Attribute::Int(value)));
        self
    }

    pub(crate) fn ints(&mut self, name: &'static str, values: Vec<i64>) -> &mut Self {
        self.attributes.push((name, Attribute::Ints(values)));
        self
    }

    pub(crate) fn float(&mut self, name: &'static str, value: f32) -> &mut Self {
        self.attributes.push((name, Attribute::Float(value)));
        self
    }

    pub(crate) fn text(&mut self, name: &'static str, value: &'static str) -> &mut Self {
        self.attributes.push((name, Attribute::Text(value)));
        self
    }
}

/// What a rule says of one output.
pub(crate) struct Output {
    r#type: Type,
    content: Option<Arc<[Dim]>>,
}

impl Output {
    pub(crate) fn new(dtype: DType, dims: impl Into<Arc<[Dim]>>) -> Self {
        Self { r#type: Type::new(dtype, dims), content: None }
    }

    /// With elements that are known as expressions of the inputs' dimensions.
    pub(crate) fn with_content(mut self, content: Option<Vec<Dim>>) -> Self {
        self.content = content.map(Into::into);
        self
    }
}

impl Graph {
    /// Adds a node with one output.
    pub(crate) fn add_node(
        &mut self,
        op: &'static str,
        since: Since,
        describe: impl FnOnce(&mut Self, &mut Draft) -> Rule<Output>,
    ) -> Result<Value> {
        let [value] = self.add_nodes(op, since, |graph, draft| describe(graph, draft).map(|output| [output]))?;
        Ok(value)
    }

    /// Adds a node with as many outputs as `describe` returns; errors get their context here.
    pub(crate) fn add_nodes<O: Outputs>(
        &mut self,
        op: &'static str,
        since: Since,
        describe: impl FnOnce(&mut Self, &mut Draft) -> Rule<O>,
    ) -> Result<O::Values> {
        if since.domain.is_empty() && since.version > self.opset {
            let scope = self.names.scope().to_owned();
            return Err(Error::Opset { scope, op, since: since.version, opset: self.opset });
        }
        let mut draft = Draft::default();
        let described = describe(self, &mut draft).and_then(|outputs| {
            let negative = outputs
                .as_slice()
                .iter()
                .find(|output| output.r#type.dims.iter().any(|dim| dim.constant().is_some_and(|number| number < 0)));
            match negative {
                Some(output) => Err(format!("the result would be {}", self.show(&output.r#type))),
                None => Ok(outputs),
            }
        });
        while draft.inputs.last() == Some(&None) {
            draft.inputs.pop();
        }
        let outputs = described.map_err(|problem| Error::Node {
            scope: self.names.scope().to_owned(),
            call: self.call_text(op, &draft.inputs, &draft.attributes, |graph, value| graph.show(&graph.info(value).r#type)),
            problem,
        })?;
        self.imports.entry(since.domain).and_modify(|version| *version = (*version).max(since.version)).or_insert(since.version);
        let name = self.names.node(op);
        let first = self.values.len();
        let values = outputs.into_values(|index, output| {
            let value = Value((first + index) as u32);
            let output_name = format!("{name}_output_{index}");
            self.by_name.insert(output_name.clone(), value);
            self.values.push(ValueInfo { name: output_name, r#type: output.r#type, origin: Origin::Node, content: output.content });
            value
        });
        let outputs = (first..self.values.len()).map(|index| Value(index as u32)).collect();
        let scope = self.names.scope().to_owned();
        self.nodes.push(Node { name, scope, domain: since.domain, op, inputs: draft.inputs, outputs, attributes: draft.attributes });
        Ok(values)
    }
}

/// One, two or many outputs.
pub(crate) trait Outputs {
    type Values;
    fn as_slice(&self) -> &[Output];
    fn into_values(self, add: impl FnMut(usize, Output) -> Value) -> Self::Values;
}

impl<const N: usize> Outputs for [Output; N] {
    type Values = [Value; N];

    fn as_slice(&self) -> &[Output] {
        self
    }

    fn into_values(self, mut add: impl FnMut(usize, Output) -> Value) -> [Value; N] {
        let mut index = 0;
        self.map(|output| {
            index += 1;
            add(index - 1, output)
        })
    }
}

impl Outputs for Vec<Output> {
    type Values = Vec<Value>;

    fn as_slice(&self) -> &[Output] {
        self
    }

    fn into_values(self, mut add: impl FnMut(usize, Output) -> Value) -> Vec<Value> {
        self.into_iter().enumerate().map(|(index, output)| add(index, output)).collect()
    }
}
