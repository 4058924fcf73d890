//! The graph under construction: names, inputs, initialisers, outputs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use plansmith_onnx::ExternalData;
use plansmith_tensor::DType;

use crate::error::{Error, Result, Rule};
use crate::names::Names;
use crate::node::Node;
use crate::operand::{Operand, float_bytes, int_bytes};
use crate::value::{Initializer, Origin, Type, ValueInfo};
use crate::{Data, Dim, Value};

/// The operator sets whose operators the builder knows.
const OPSETS: std::ops::RangeInclusive<u32> = 21..=24;

/// An ONNX graph being built, in topological order by construction: a node can only use values that exist.
///
/// Each operator is a method that returns the [`Value`] it computes, after checking dtypes and symbolic shapes.
#[derive(Debug, Clone)]
pub struct Graph {
    pub(crate) name: String,
    pub(crate) opset: u32,
    pub(crate) values: Vec<ValueInfo>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) inputs: Vec<Value>,
    pub(crate) outputs: Vec<Value>,
    pub(crate) initializers: Vec<Initializer>,
    /// Every value by its name.
    pub(crate) by_name: HashMap<String, Value>,
    pub(crate) names: Names,
    /// Operator sets of the nodes so far, by domain.
    pub(crate) imports: BTreeMap<&'static str, u32>,
    /// Dimensions that have a name of their own: `total_sequence_length` for `past_sequence_length + sequence_length`.
    pub(crate) definitions: Vec<(Arc<str>, Dim)>,
    /// Constants by dtype, rank (0 or 1) and bytes.
    constants: HashMap<(DType, usize, Vec<u8>), Value>,
    /// Tensors that hold dimensions: scalars (rank 0) or vectors.
    pub(crate) sizes: HashMap<(usize, Vec<Dim>), Value>,
    /// The input that sizes are read off where it has them.
    pub(crate) size_source: Option<Value>,
    /// Whether Reshapes are given every size.
    pub(crate) sizes_spelt_out: bool,
    /// How many dimensions without an expression were made.
    pub(crate) unknown_dims: usize,
}

impl Graph {
    /// An empty graph for the standard operator set `opset` (21 to 24).
    ///
    /// # Errors
    /// Another operator set.
    pub fn new(name: &str, opset: u32) -> Result<Self> {
        if !OPSETS.contains(&opset) {
            return Err(Error::UnsupportedOpset(opset));
        }
        Ok(Self {
            name: name.to_owned(),
            opset,
            values: Vec::new(),
            nodes: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            initializers: Vec::new(),
            by_name: HashMap::new(),
            names: Names::default(),
            imports: BTreeMap::new(),
            definitions: Vec::new(),
            constants: HashMap::new(),
            sizes: HashMap::new(),
            size_source: None,
            sizes_spelt_out: false,
            unknown_dims: 0,
        })
    }

    /// The standard operator set that the graph is written for.
    pub fn opset(&self) -> u32 {
        self.opset
    }

    /// The element type of `value`.
    pub fn dtype(&self, value: Value) -> DType {
        self.info(value).r#type.dtype
    }

    /// The dimensions of `value`, outermost first.
    pub fn dims(&self, value: Value) -> Arc<[Dim]> {
        self.info(value).r#type.dims.clone()
    }

    /// The name of `value` in the ONNX file (an output's changes when it becomes a graph output).
    pub fn value_name(&self, value: Value) -> &str {
        &self.info(value).name
    }

    /// Number of nodes so far.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn info(&self, value: Value) -> &ValueInfo {
        &self.values[value.0 as usize]
    }

    /// Runs `build` in the scope `name` (`layers.3`) within the current one: nodes are named and errors located by it.
    pub fn scope<T>(&mut self, name: &str, build: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.names.enter(name);
        let result = build(self);
        self.names.leave(outer);
        result
    }

    /// Gives the expression `dim` a name: shapes show it, and inputs may use the name for it. Returns the expression.
    ///
    /// ```
    /// # use plansmith_graph::{Dim, Graph};
    /// # let mut g = Graph::new("doc", 23)?;
    /// let total = g.define_dim("total_sequence_length", Dim::symbol("past_sequence_length") + "sequence_length");
    /// # Ok::<(), plansmith_graph::Error>(())
    /// ```
    pub fn define_dim(&mut self, name: &str, dim: impl Into<Dim>) -> Dim {
        let dim = self.expand_dim(&dim.into());
        self.definitions.push((name.into(), dim.clone()));
        dim
    }

    /// `dim` with defined names replaced by what they stand for: the one form that shapes are compared in.
    pub(crate) fn expand_dim(&self, dim: &Dim) -> Dim {
        dim.substitute(|name| self.definitions.iter().find(|(defined, _)| **defined == *name).map(|(_, dim)| dim.clone()))
    }

    pub(crate) fn expand_all(&self, dims: &[Dim]) -> Vec<Dim> {
        dims.iter().map(|dim| self.expand_dim(dim)).collect()
    }

    /// Adds the graph input `name`; named dimensions are what a run decides.
    ///
    /// # Errors
    /// The name is taken.
    pub fn input(&mut self, name: &str, dtype: DType, dims: &[Dim]) -> Result<Value> {
        let r#type = Type::new(dtype, self.expand_all(dims));
        let value = self.named(name, r#type, Origin::Input, "an input")?;
        self.inputs.push(value);
        Ok(value)
    }

    /// Makes `value` the graph output `name`. An input, an initialiser or what is an output already goes through an Identity.
    ///
    /// # Errors
    /// The name is taken.
    pub fn output(&mut self, name: &str, value: Value) -> Result<()> {
        if let Some(&taken) = self.by_name.get(name) {
            return Err(self.duplicate(name, taken, "an output"));
        }
        let fresh = self.info(value).origin == Origin::Node && !self.outputs.contains(&value);
        let value = if fresh { value } else { self.identity(value)? };
        let old = std::mem::replace(&mut self.values[value.0 as usize].name, name.to_owned());
        self.by_name.remove(&old);
        self.by_name.insert(name.to_owned(), value);
        self.outputs.push(value);
        Ok(())
    }

    /// The initialiser `name`. Asked for again with the same dtype, shape and data it is the same value.
    ///
    /// # Errors
    /// The data does not have the bytes that dtype and shape imply; the name is taken by something else.
    pub fn initializer(&mut self, name: &str, dtype: DType, shape: &[u64], data: Data) -> Result<Value> {
        self.store(name, dtype, shape, data, None)
    }

    fn store(&mut self, name: &str, dtype: DType, shape: &[u64], data: Data, literal: Option<String>) -> Result<Value> {
        let refuse = |problem| Err(Error::Initializer { name: name.to_owned(), problem });
        let r#type = Type::new(dtype, shape.iter().map(|&dim| Dim::from(dim)).collect::<Vec<_>>());
        let Some(wanted) = dtype.tensor_bytes(shape) else {
            return refuse(format!("{type} has no whole number of bytes"));
        };
        let found = match &data {
            Data::Inline(bytes) => bytes.len() as u64,
            Data::External(ExternalData { length: None, .. }) => return refuse("the external data has no length".to_owned()),
            Data::External(ExternalData { location, offset, length: Some(length) }) => {
                match ExternalData::new(location, *offset, *length) {
                    Ok(_) => *length,
                    Err(problem) => return refuse(problem),
                }
            }
        };
        if wanted != found {
            return refuse(format!("{type} implies {wanted} bytes, the data has {found}"));
        }
        if let Some(&existing) = self.by_name.get(name)
            && let Origin::Initializer(index) = self.info(existing).origin
        {
            let same = self.info(existing).r#type == r#type && self.initializers[index].data == data;
            return if same {
                Ok(existing)
            } else {
                Err(self.duplicate(name, existing, &format!("the initialiser {type} with other data")))
            };
        }
        let content = int64_content(dtype, shape, &data);
        let index = self.initializers.len();
        let value = self.named(name, r#type, Origin::Initializer(index), "an initialiser")?;
        self.values[value.0 as usize].content = content;
        self.initializers.push(Initializer { value, shape: shape.to_vec(), data, literal });
        Ok(value)
    }

    fn named(&mut self, name: &str, r#type: Type, origin: Origin, what: &str) -> Result<Value> {
        if let Some(&taken) = self.by_name.get(name) {
            return Err(self.duplicate(name, taken, what));
        }
        let value = Value(self.values.len() as u32);
        self.by_name.insert(name.to_owned(), value);
        self.values.push(ValueInfo { name: name.to_owned(), r#type, origin, content: None });
        Ok(value)
    }

    fn duplicate(&self, name: &str, taken: Value, second: &str) -> Error {
        let info = self.info(taken);
        let what = match info.origin {
            Origin::Input => "the input",
            Origin::Initializer(_) => "the initialiser",
            Origin::Node if self.outputs.contains(&taken) => "the output",
            Origin::Node => "the value",
        };
        Error::Duplicate { name: name.to_owned(), first: format!("{what} {}", self.show(&info.r#type)), second: second.to_owned() }
    }

    /// The scalar constant `number` in `dtype`, rounded to nearest; one initialiser for each distinct value.
    ///
    /// # Errors
    /// NaN, or a number that `dtype` cannot hold.
    pub fn scalar(&mut self, dtype: DType, number: f64) -> Result<Value> {
        let problem = |problem| Error::Initializer { name: number.to_string(), problem };
        let whole = number as i64;
        if whole as f64 == number && !crate::shapes::is_float(dtype) {
            return self.int(dtype, whole).map_err(problem);
        }
        let (bytes, text) = float_bytes(dtype, number).map_err(problem)?;
        self.constant(dtype, &[], bytes, text).map_err(problem)
    }

    /// The int64 vector `numbers`; one initialiser for each distinct value.
    ///
    /// # Errors
    /// A checkpoint tensor has taken the constant's name.
    pub fn ints(&mut self, numbers: &[i64]) -> Result<Value> {
        self.int_vector(numbers).map_err(|problem| Error::Initializer { name: format!("{numbers:?}"), problem })
    }

    pub(crate) fn int_vector(&mut self, numbers: &[i64]) -> Rule<Value> {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(DType::I64, &[numbers.len() as u64], bytes, format!("{numbers:?}"))
    }

    fn int(&mut self, dtype: DType, number: i64) -> Rule<Value> {
        let (bytes, text) = int_bytes(dtype, number)?;
        self.constant(dtype, &[], bytes, text)
    }

    /// Names say dtype and value, so that the file reads well and does not depend on the order of use.
    fn constant(&mut self, dtype: DType, shape: &[u64], bytes: Vec<u8>, text: String) -> Rule<Value> {
        let key = (dtype, shape.len(), bytes);
        if let Some(&value) = self.constants.get(&key) {
            return Ok(value);
        }
        let readable = text.trim_matches(['[', ']']).replace(", ", "_");
        let short = if readable.len() <= 40 { readable } else { format!("list_{}", self.constants.len()) };
        let form = if shape.is_empty() { "scalar" } else { "vector" };
        let name = format!("/constant/{}/{form}/{short}", dtype.name().to_ascii_lowercase());
        let data = Data::Inline(key.2.as_slice().into());
        let value = self.store(&name, dtype, shape, data, Some(text)).map_err(|error| error.to_string())?;
        self.constants.insert(key, value);
        Ok(value)
    }

    /// `operand` as a value; numbers take `dtype`.
    pub(crate) fn value_of(&mut self, operand: Operand, dtype: DType) -> Rule<Value> {
        match operand {
            Operand::Value(value) => Ok(value),
            Operand::Int(number) => self.int(dtype, number),
            Operand::Float(number) => {
                let (bytes, text) = float_bytes(dtype, number)?;
                self.constant(dtype, &[], bytes, text)
            }
            Operand::Ints(_) | Operand::Dim(_) if dtype != DType::I64 => Err(format!("indices and dimensions are I64, not {dtype}")),
            Operand::Ints(numbers) => self.int_vector(&numbers),
            Operand::Dim(dim) => self.size_scalar(&dim).map_err(|error| error.to_string()),
        }
    }

    /// The dtype that `operand` brings along; `None` for plain numbers.
    pub(crate) fn dtype_of(&self, operand: &Operand) -> Option<DType> {
        match operand {
            Operand::Value(value) => Some(self.dtype(*value)),
            Operand::Ints(_) | Operand::Dim(_) => Some(DType::I64),
            Operand::Float(_) | Operand::Int(_) => None,
        }
    }
}

/// Elements of a small inline int64 scalar or vector: they take part in shape computation.
fn int64_content(dtype: DType, shape: &[u64], data: &Data) -> Option<Arc<[Dim]>> {
    let Data::Inline(bytes) = data else { return None };
    if dtype != DType::I64 || shape.len() > 1 || bytes.len() > 64 * 8 {
        return None;
    }
    let (numbers, _) = bytes.as_chunks::<8>();
    Some(numbers.iter().map(|bytes| Dim::from_constant(i64::from_le_bytes(*bytes))).collect())
}
