//! Operations on a finished graph.

use std::path::Path;

use plansmith_onnx::proto::attribute_proto::AttributeType;
use plansmith_onnx::proto::tensor_proto::{DataLocation, DataType};
use plansmith_onnx::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};
use plansmith_onnx::{ExternalData, ModelProto as Model};

/// A graph on the table. Names are those that `plansmith-lowering` gives.
pub struct Surgery<'a> {
    graph: &'a mut GraphProto,
    folder: &'a Path,
    made: usize,
}

impl<'a> Surgery<'a> {
    /// Operates on `model`, whose weights lie in `folder`.
    pub(crate) fn on(model: &'a mut Model, folder: &'a Path) -> Result<Self, String> {
        let ModelProto { graph, .. } = model;
        Ok(Self { graph: graph.as_mut().ok_or("the model has no graph")?, folder, made: 0 })
    }

    fn position(&self, name: &str) -> Result<usize, String> {
        self.graph.node.iter().position(|node| node.name() == name).ok_or_else(|| format!("there is no node `{name}`"))
    }

    /// The node of this name.
    pub(crate) fn node(&mut self, name: &str) -> Result<&mut NodeProto, String> {
        let at = self.position(name)?;
        Ok(&mut self.graph.node[at])
    }

    fn fresh(&mut self, what: &str) -> String {
        self.made += 1;
        format!("seeded/{what}_{}", self.made)
    }

    /// An int64 constant: a scalar, or a vector.
    pub(crate) fn integers(&mut self, values: &[i64], scalar: bool) -> String {
        let name = self.fresh("integers");
        let dims = if scalar { Vec::new() } else { vec![values.len() as i64] };
        let raw = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.graph.initializer.push(inline(&name, DataType::Int64, dims, raw));
        name
    }

    /// An fp32 scalar.
    pub(crate) fn float(&mut self, value: f32) -> String {
        let name = self.fresh("float");
        self.graph.initializer.push(inline(&name, DataType::Float, Vec::new(), value.to_le_bytes().to_vec()));
        name
    }

    /// Adds nodes before the node `before`, which then reads `value` through them. `build` gets the value and returns what to read instead.
    pub(crate) fn before(
        &mut self,
        before: &str,
        value: &str,
        build: impl FnOnce(&mut Theatre<'_, 'a>, String) -> String,
    ) -> Result<(), String> {
        let at = self.position(before)?;
        if !self.graph.node[at].input.iter().any(|input| input == value) {
            return Err(format!("`{before}` does not read `{value}`"));
        }
        let mut theatre = Theatre { at, scope: scope(before), surgery: self };
        let replaced = build(&mut theatre, value.to_owned());
        let at = theatre.at;
        for input in self.graph.node[at].input.iter_mut().filter(|input| *input == value) {
            input.clone_from(&replaced);
        }
        Ok(())
    }

    /// Adds nodes behind the first output of the node `after`; every later reader of it reads what `build` returns.
    pub(crate) fn after(&mut self, after: &str, build: impl FnOnce(&mut Theatre<'_, 'a>, String) -> String) -> Result<(), String> {
        let at = self.position(after)?;
        let value = self.graph.node[at].output[0].clone();
        let mut theatre = Theatre { at: at + 1, scope: scope(after), surgery: self };
        let replaced = build(&mut theatre, value.clone());
        let at = theatre.at;
        for input in self.graph.node[at..].iter_mut().flat_map(|node| &mut node.input).filter(|input| **input == value) {
            input.clone_from(&replaced);
        }
        Ok(())
    }

    /// Every reader of the graph's input `name` reads what `build`, at the very start, returns.
    pub(crate) fn input(&mut self, name: &str, build: impl FnOnce(&mut Theatre<'_, 'a>, String) -> String) {
        let mut theatre = Theatre { at: 0, scope: "/seeded".to_owned(), surgery: self };
        let replaced = build(&mut theatre, name.to_owned());
        let at = theatre.at;
        for input in self.graph.node[at..].iter_mut().flat_map(|node| &mut node.input).filter(|input| *input == name) {
            input.clone_from(&replaced);
        }
    }

    /// The graph's output `name` is made by a node of its own, `op` over `inputs`; what made it serves the graph as before.
    pub(crate) fn output(&mut self, name: &str, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) {
        let inner = self.fresh("inner");
        for node in &mut self.graph.node {
            for value in node.output.iter_mut().chain(&mut node.input).filter(|value| *value == name) {
                value.clone_from(&inner);
            }
        }
        let inputs: Vec<String> = inputs.iter().map(|input| if *input == name { inner.clone() } else { (*input).to_owned() }).collect();
        let node = NodeProto {
            name: Some(format!("/seeded/{op}")),
            op_type: Some(op.to_owned()),
            input: inputs,
            output: vec![name.to_owned()],
            attribute: attributes,
            ..NodeProto::default()
        };
        self.graph.node.push(node);
    }

    fn initialiser(&mut self, name: &str) -> Result<&mut TensorProto, String> {
        self.graph.initializer.iter_mut().find(|tensor| tensor.name() == name).ok_or_else(|| format!("there is no initialiser `{name}`"))
    }

    /// Where the bytes of an initialiser lie.
    pub(crate) fn place(&mut self, name: &str) -> Result<ExternalData, String> {
        let tensor = self.initialiser(name)?;
        ExternalData::of(tensor).map_err(|error| error.to_string())?.ok_or_else(|| format!("`{name}` is inline"))
    }

    /// Takes the bytes of an initialiser from elsewhere.
    pub(crate) fn replace(&mut self, name: &str, place: &ExternalData) -> Result<(), String> {
        self.initialiser(name)?.external_data = place.entries();
        Ok(())
    }

    /// Puts a changed copy of an fp32 initialiser into the graph itself.
    pub(crate) fn rewrite(&mut self, name: &str, change: impl FnOnce(&mut [f32])) -> Result<(), String> {
        let place = self.place(name)?;
        let file = plansmith_files::read(&self.folder.join(&place.location)).map_err(|error| error.to_string())?;
        let (start, length) = (place.offset as usize, place.length.unwrap_or_default() as usize);
        let bytes = file.get(start..start + length).ok_or_else(|| format!("`{name}` passes the end of {}", place.location))?;
        let mut values: Vec<f32> = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        change(&mut values);
        let tensor = self.initialiser(name)?;
        tensor.external_data.clear();
        tensor.data_location = Some(DataLocation::Default as i32);
        tensor.raw_data = Some(values.iter().flat_map(|value| value.to_le_bytes()).collect());
        Ok(())
    }
}

/// Where nodes are being added.
pub(crate) struct Theatre<'s, 'a> {
    at: usize,
    scope: String,
    surgery: &'s mut Surgery<'a>,
}

impl Theatre<'_, '_> {
    /// Adds a node and returns its output.
    pub(crate) fn node(&mut self, op: &str, inputs: &[&str], attributes: Vec<AttributeProto>) -> String {
        let output = self.surgery.fresh(op);
        let node = NodeProto {
            name: Some(format!("{}/{output}", self.scope)),
            op_type: Some(op.to_owned()),
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![output.clone()],
            attribute: attributes,
            ..NodeProto::default()
        };
        self.surgery.graph.node.insert(self.at, node);
        self.at += 1;
        output
    }

    pub(crate) fn integers(&mut self, values: &[i64]) -> String {
        self.surgery.integers(values, false)
    }

    pub(crate) fn integer(&mut self, value: i64) -> String {
        self.surgery.integers(&[value], true)
    }

    pub(crate) fn float(&mut self, value: f32) -> String {
        self.surgery.float(value)
    }

    /// `value` rounded to 11 significant bits, fp16's, wherever it is within that range (Veltkamp's splitting).
    pub(crate) fn rounded(&mut self, value: &str) -> String {
        let splitter = self.float(8193.0);
        let large = self.node("Mul", &[value, &splitter], Vec::new());
        let rest = self.node("Sub", &[&large, value], Vec::new());
        self.node("Sub", &[&large, &rest], Vec::new())
    }

    /// The number of rows, a scalar.
    pub(crate) fn rows(&mut self) -> String {
        let shape = self.node("Shape", &["input_ids"], vec![int("start", 0), int("end", 1)]);
        let axis = self.integers(&[0]);
        self.node("Squeeze", &[&shape, &axis], Vec::new())
    }

    /// `0, 1, … rows − 1`.
    pub(crate) fn row_numbers(&mut self) -> String {
        let (rows, start, step) = (self.rows(), self.integer(0), self.integer(1));
        self.node("Range", &[&start, &rows, &step], Vec::new())
    }
}

fn scope(node: &str) -> String {
    node.rsplit_once('/').map_or("", |(scope, _)| scope).to_owned()
}

fn inline(name: &str, dtype: DataType, dims: Vec<i64>, raw: Vec<u8>) -> TensorProto {
    TensorProto { name: Some(name.to_owned()), data_type: Some(dtype as i32), dims, raw_data: Some(raw), ..TensorProto::default() }
}

/// An integer attribute.
pub(crate) fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { name: Some(name.to_owned()), i: Some(value), r#type: Some(AttributeType::Int as i32), ..AttributeProto::default() }
}

/// Sets a float attribute that the node has.
pub(crate) fn set_float(node: &mut NodeProto, name: &str, change: impl Fn(f32) -> f32) -> Result<(), String> {
    let node_name = node.name().to_owned();
    let attribute = node.attribute.iter_mut().find(|attribute| attribute.name() == name);
    let attribute = attribute.ok_or_else(|| format!("`{node_name}` has no `{name}`"))?;
    attribute.f = Some(change(attribute.f()));
    Ok(())
}
