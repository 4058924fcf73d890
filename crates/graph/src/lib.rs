//! Typed ONNX graph builder.
//!
//! A [`Graph`] grows by method calls: each operator checks dtypes and symbolic shapes, names its node by the scope and returns a
//! [`Value`], which is `Copy`. [`Graph::finish`] encodes the graph; its `Display` form is what snapshots show.
//!
//! ```
//! use plansmith_graph::{Data, Graph, Metadata, dims};
//! use plansmith_tensor::DType;
//!
//! let mut g = Graph::new("doc", 21)?;
//! let x = g.input("x", DType::F32, &dims!["tokens", 2])?;
//! let w = g.initializer("w", DType::F32, &[1, 2], Data::Inline([0; 8].into()))?;
//! let y = g.scope("proj", |g| g.gemm(x, w, None, true))?;
//! let y = g.mul(y, 0.5)?;
//! g.output("y", y)?;
//! let model = g.finish(&Metadata::default())?;
//! assert_eq!(model.graph.unwrap().node[0].name(), "/proj/Gemm");
//! # Ok::<(), plansmith_graph::Error>(())
//! ```

#![forbid(unsafe_code)]

mod dim;
mod encode;
mod error;
mod graph;
mod names;
mod node;
mod operand;
mod ops;
mod print;
mod shapes;
mod size;
mod value;

pub use dim::Dim;
pub use encode::Metadata;
pub use error::{Error, Result};
pub use graph::Graph;
pub use operand::{Operand, lowest};
pub use ops::{AttentionOptions, GroupQuery, RotaryOptions};
pub use plansmith_onnx::{ExternalData, Findings, check};
pub use value::{Data, Type, Value};
