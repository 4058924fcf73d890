//! A model's inputs and outputs as a runtime shows them.

use std::collections::HashSet;

use plansmith_tensor::{Signature, TensorSignature};

use crate::Error;
use crate::proto::tensor_shape_proto::dimension::Value as DimValue;
use crate::proto::type_proto::Value as TypeValue;
use crate::proto::{ModelProto, ValueInfoProto};

/// Elements that the fixed dimensions of an input or output may come to.
const MOST_ELEMENTS: u64 = 1 << 40;

/// Inputs (without those that are only names of initialisers, as IR version 3 wrote them) and outputs of `model`, in its order.
/// An unnamed dimension gets the name `?`.
///
/// # Errors
/// The model holds no graph, or an input or output is no tensor, has no shape, a negative dimension, more elements than any
/// memory holds, or a dtype that we have no name for.
pub fn signature(model: &ModelProto) -> Result<Signature, Error> {
    let graph = model.graph.as_ref().ok_or(Error::NoGraph)?;
    let initialisers: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name()).collect();
    let inputs = graph.input.iter().filter(|input| !initialisers.contains(input.name()));
    Ok(Signature {
        inputs: inputs.map(tensor_signature).collect::<Result<_, _>>()?,
        outputs: graph.output.iter().map(tensor_signature).collect::<Result<_, _>>()?,
    })
}

fn tensor_signature(info: &ValueInfoProto) -> Result<TensorSignature, Error> {
    let refuse = |problem: String| Error::Signature { name: info.name().to_owned(), problem };
    let Some(TypeValue::TensorType(tensor)) = info.r#type.as_ref().and_then(|r#type| r#type.value.as_ref()) else {
        return Err(refuse("is not a dense tensor".to_owned()));
    };
    let number = tensor.elem_type();
    let dtype = crate::dtype(number).ok_or_else(|| refuse(format!("has ONNX element type {number}, which we have no use for")))?;
    let shape = tensor.shape.as_ref().ok_or_else(|| refuse("has no shape".to_owned()))?;
    let dim = |value: &Option<DimValue>| match value {
        Some(DimValue::DimValue(number)) => u64::try_from(*number).map(Ok).map_err(|_| refuse(format!("has a dimension of {number}"))),
        Some(DimValue::DimParam(name)) if !name.is_empty() => Ok(Err(name.clone())),
        _ => Ok(Err("?".to_owned())),
    };
    let shape: Vec<Result<u64, String>> = shape.dim.iter().map(|entry| dim(&entry.value)).collect::<Result<_, _>>()?;
    let fixed = shape.iter().flatten().try_fold(1u64, |product, &dim| product.checked_mul(dim)).filter(|product| *product <= MOST_ELEMENTS);
    if fixed.is_none() {
        let dims: Vec<String> = shape.iter().map(|dim| dim.as_ref().map_or_else(Clone::clone, u64::to_string)).collect();
        return Err(refuse(format!("declares [{}]: no memory holds so many elements", dims.join(", "))));
    }
    Ok(TensorSignature { name: info.name().to_owned(), dtype, shape })
}
