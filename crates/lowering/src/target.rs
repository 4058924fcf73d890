//! What a graph is made for.

use std::fmt;

use plansmith_families::{Attention, DecoderSpec};
use plansmith_tensor::DType;
use serde::{Deserialize, Serialize};

use crate::{Error, Kv};

/// A float type that graphs compute in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the variants are the field's names")]
pub enum Float {
    Fp32,
    Fp16,
    Bf16,
}

impl Float {
    /// As tensors name it.
    pub fn dtype(self) -> DType {
        match self {
            Float::Fp32 => DType::F32,
            Float::Fp16 => DType::F16,
            Float::Bf16 => DType::BF16,
        }
    }

    /// The float type of a stored tensor, where it is one of the three.
    pub fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F32 => Some(Float::Fp32),
            DType::F16 => Some(Float::Fp16),
            DType::BF16 => Some(Float::Bf16),
            _ => None,
        }
    }
}

impl fmt::Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Float::Fp32 => "fp32",
            Float::Fp16 => "fp16",
            Float::Bf16 => "bf16",
        })
    }
}

/// Which operators a graph may be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// Standard operators that every runtime has.
    Portable,
    /// As `Portable`, with ONNX Runtime's GroupQueryAttention in the layers that it can compute.
    Onnxruntime,
    /// As `Portable`, in the form that TensorRT's parser accepts for this dtype and head size.
    Tensorrt,
}

/// Which positions get logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogitsAt {
    /// Every position of the step.
    All,
    /// Each row's last position with mask 1.
    Last,
}

/// What files of weights are called beside a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightNames {
    /// As in the checkpoint, or `model_fp16.safetensors` where they are converted.
    #[default]
    Checkpoint,
    /// `model.onnx_data`, `model.onnx_data_1`, … behind the graph's own name: what transformers.js fetches from a hub, which it cannot list.
    Hub,
}

impl WeightNames {
    fn is_checkpoint(&self) -> bool {
        *self == Self::Checkpoint
    }

    /// The name of the file `index` of those behind `graph`; `own` is the checkpoint's.
    pub(crate) fn name(self, graph: &str, index: usize, own: &str) -> String {
        match (self, index) {
            (Self::Checkpoint, _) => own.to_owned(),
            (Self::Hub, 0) => format!("{graph}_data"),
            (Self::Hub, index) => format!("{graph}_data_{index}"),
        }
    }
}

/// What an export is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Target {
    /// How weights are stored; `None` as they are.
    pub storage: Option<Float>,
    /// What the graph computes in; `None` as weights are stored.
    pub compute: Option<Float>,
    /// Which operators.
    pub dialect: Dialect,
    /// Which positions get logits.
    pub logits: LogitsAt,
    /// ONNX operator set; `None` for the dialect's default.
    pub opset: Option<u32>,
    /// How the cache is carried from step to step.
    #[serde(default)]
    pub kv: Kv,
    /// What the files of weights are called.
    #[serde(default, skip_serializing_if = "WeightNames::is_checkpoint")]
    pub weight_names: WeightNames,
}

impl Default for Target {
    fn default() -> Self {
        Self {
            storage: None,
            compute: None,
            dialect: Dialect::Portable,
            logits: LogitsAt::All,
            opset: None,
            kv: Kv::Concat,
            weight_names: WeightNames::Checkpoint,
        }
    }
}

/// The two ways of writing attention, norm and rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// The composite operators of opset 23: Attention, RMSNormalization, RotaryEmbedding.
    Composite,
    /// MatMul, Softmax and arithmetic of opset 21.
    Primitive,
}

/// The operator set of the primitive form.
pub const PRIMITIVE_OPSET: u32 = 21;
/// The operator set of the composite form.
pub const COMPOSITE_OPSET: u32 = 23;
/// The operator set of a static cache, in either form: the first with TensorScatter.
pub const STATIC_OPSET: u32 = 24;

impl Target {
    /// The form, and the operator set that goes with it.
    ///
    /// TensorRT-RTX 1.7 takes opset-23 Attention in fp16 and bf16 with a head size that is a multiple of 8 from 16 to 256, and
    /// nothing else (measured); with fewer than four heads it has no kernel for some profiles. Elsewhere its dialect is the
    /// primitive form.
    ///
    /// # Errors
    /// The operator set is neither of the two, or not that of a static cache.
    pub fn form(&self, spec: &DecoderSpec, compute: Float) -> Result<(Form, u32), Error> {
        let fused_on_tensorrt = || {
            let fits = |attention: &Attention| {
                attention.head_dim.is_multiple_of(8) && (16..=256).contains(&attention.head_dim) && attention.heads >= 4
            };
            compute != Float::Fp32 && spec.layers.iter().all(|layer| fits(&layer.attention))
        };
        if self.kv == Kv::Static {
            if self.dialect == Dialect::Onnxruntime {
                return Err(Error::StaticDialect);
            }
            let primitive = self.dialect == Dialect::Tensorrt && !fused_on_tensorrt();
            return match self.opset {
                None | Some(STATIC_OPSET) => Ok((if primitive { Form::Primitive } else { Form::Composite }, STATIC_OPSET)),
                Some(other) => Err(Error::StaticOpset(other)),
            };
        }
        match (self.opset, self.dialect) {
            (Some(other), Dialect::Onnxruntime) if other != COMPOSITE_OPSET => Err(Error::OnnxruntimeOpset(other)),
            (Some(PRIMITIVE_OPSET), _) => Ok((Form::Primitive, PRIMITIVE_OPSET)),
            (Some(COMPOSITE_OPSET), Dialect::Tensorrt) if !fused_on_tensorrt() => Ok((Form::Primitive, COMPOSITE_OPSET)),
            (Some(COMPOSITE_OPSET), _) => Ok((Form::Composite, COMPOSITE_OPSET)),
            (Some(other), _) => Err(Error::Opset(other)),
            (None, Dialect::Tensorrt) if !fused_on_tensorrt() => Ok((Form::Primitive, PRIMITIVE_OPSET)),
            (None, _) => Ok((Form::Composite, COMPOSITE_OPSET)),
        }
    }
}
