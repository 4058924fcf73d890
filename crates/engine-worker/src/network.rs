//! What the parser made of a graph.

use std::ffi::{CStr, c_char};

use plansmith_engine::protocol::Failure;
use plansmith_engine::{CachePair, TensorRecord};
use plansmith_tensor::DType;
use trtx_sys::nvinfer1::{INetworkDefinition, ITensor};
use trtx_sys::{DataType, Dims64, LayerType};

use crate::failure::failed;

/// Inputs in the network's order.
pub(crate) fn inputs(network: &INetworkDefinition) -> Result<Vec<TensorRecord>, Failure> {
    (0..network.getNbInputs()).map(|index| record(network.getInput(index))).collect()
}

/// Outputs in the network's order.
pub(crate) fn outputs(network: &INetworkDefinition) -> Result<Vec<TensorRecord>, Failure> {
    (0..network.getNbOutputs()).map(|index| record(network.getOutput(index))).collect()
}

fn record(tensor: *const ITensor) -> Result<TensorRecord, Failure> {
    // SAFETY: the network gives null or a tensor that lives as long as it.
    let Some(tensor) = (unsafe { tensor.as_ref() }) else {
        return Err(failed("the network lacks an input or output that it counts", Vec::new()));
    };
    let name = name(tensor);
    let shape = dims(&tensor.getDimensions()).ok_or_else(|| failed(format!("`{name}` has no shape"), Vec::new()))?;
    Ok(TensorRecord { dtype: dtype(tensor.getType().into(), &name)?, name, shape })
}

fn name(tensor: &ITensor) -> String {
    text(tensor.getName())
}

/// The name of a tensor or layer.
pub(crate) fn text(name: *const c_char) -> String {
    // SAFETY: TensorRT gives null or a C string that lives as long as what it names.
    if name.is_null() { String::new() } else { unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned() }
}

/// Dimensions, -1 where dynamic; `None` where TensorRT says that they are invalid.
pub(crate) fn dims(dims: &Dims64) -> Option<Vec<i64>> {
    dims.d.get(..usize::try_from(dims.nbDims).ok()?).map(<[i64]>::to_vec)
}

/// TensorRT's element types by ours.
pub(crate) fn dtype(dtype: DataType, name: &str) -> Result<DType, Failure> {
    Ok(match dtype {
        DataType::kFLOAT => DType::F32,
        DataType::kHALF => DType::F16,
        DataType::kBF16 => DType::BF16,
        DataType::kINT64 => DType::I64,
        DataType::kINT32 => DType::I32,
        DataType::kINT8 => DType::I8,
        DataType::kUINT8 => DType::U8,
        DataType::kBOOL => DType::Bool,
        DataType::kFP8 => DType::F8E4M3,
        other => return Err(failed(format!("`{name}` has TensorRT's type {other:?}, which no decoder's input or output has"), Vec::new())),
    })
}

/// Pairs `past_key_values.N.key` with `present.N.key`, and so for values.
pub(crate) fn cache_pairs(network: &INetworkDefinition, inputs: &[TensorRecord], outputs: &[TensorRecord]) -> Vec<CachePair> {
    let updated = updated_in_place(network);
    let pair = |input: &TensorRecord| {
        let present = format!("present.{}", input.name.strip_prefix("past_key_values.")?);
        let aliased = updated.iter().any(|(past, next)| *past == input.name && *next == present);
        outputs.iter().any(|output| output.name == present).then(|| CachePair { past: input.name.clone(), present, aliased })
    };
    inputs.iter().filter_map(pair).collect()
}

/// Input and output names of the layers that update a cache in place.
fn updated_in_place(network: &INetworkDefinition) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for index in 0..network.getNbLayers() {
        // SAFETY: the network gives null or a layer, and the layer null or a tensor, that live as long as the network.
        let names = unsafe {
            let Some(layer) = network.getLayer(index).as_ref() else { continue };
            if LayerType::from(layer.getType()) != LayerType::kKVCACHE_UPDATE {
                continue;
            }
            (layer.getInput(0).as_ref().map(name), layer.getOutput(0).as_ref().map(name))
        };
        if let (Some(past), Some(next)) = names {
            found.push((past, next));
        }
    }
    found
}
