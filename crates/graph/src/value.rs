//! What flows through a graph: values, their types and where they come from.

use std::fmt;
use std::sync::Arc;

use plansmith_onnx::ExternalData;
use plansmith_tensor::DType;

use crate::Dim;

/// A tensor in a [`crate::Graph`]: an input, an initialiser or the output of a node. Only meaningful to the graph that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub(crate) u32);

/// Element type and dimensions of a value.
#[derive(Clone, PartialEq, Eq)]
pub struct Type {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first.
    pub dims: Arc<[Dim]>,
}

impl Type {
    pub(crate) fn new(dtype: DType, dims: impl Into<Arc<[Dim]>>) -> Self {
        Self { dtype, dims: dims.into() }
    }
}

/// `f32[batch_size, 576]`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype.name().to_ascii_lowercase(), self.dims)
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An initialiser's elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// In a file beside the model; nothing is read.
    External(ExternalData),
    /// Little-endian, row-major, in the model file itself: for small tensors.
    Inline(Arc<[u8]>),
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Input,
    /// Index into the graph's initialisers.
    Initializer(usize),
    Node,
}

/// What the graph knows of a value.
#[derive(Debug, Clone)]
pub(crate) struct ValueInfo {
    pub(crate) name: String,
    pub(crate) r#type: Type,
    pub(crate) origin: Origin,
    /// The elements of an int64 scalar or vector that is computed from dimensions and constants alone.
    pub(crate) content: Option<Arc<[Dim]>>,
}

/// A tensor that is stored with the model.
#[derive(Debug, Clone)]
pub(crate) struct Initializer {
    pub(crate) value: Value,
    pub(crate) shape: Vec<u64>,
    pub(crate) data: Data,
    /// How the text printer writes it, where it is a constant that the builder made: `0.125` or `[0, 2]`.
    pub(crate) literal: Option<String>,
}
