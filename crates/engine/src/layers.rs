//! The layers of a plan's network, as its parser made them.

use std::collections::BTreeMap;

use plansmith_tensor::DType;
use serde::{Deserialize, Serialize};

/// What a network is made of. The compiler fuses layers into kernels; which, and how long each takes, only a GPU can tell.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerSummary {
    /// How many layers there are of a kind, constants included.
    pub kinds: BTreeMap<String, u64>,
    /// Those that have weights, biggest first.
    pub weighted: Vec<LayerRecord>,
}

impl LayerSummary {
    pub(crate) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}

/// A layer with weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerRecord {
    /// The node of the graph that it was made from.
    pub name: String,
    /// `MATRIX_MULTIPLY`, for example.
    pub kind: String,
    /// Bytes of its weights; weights of two layers count for both.
    pub weight_bytes: u64,
    /// Element type of its first output.
    #[serde(with = "crate::manifest::dtype_name")]
    pub dtype: DType,
    /// Dimensions of its first output; -1 where the profile decides.
    pub shape: Vec<i64>,
}
