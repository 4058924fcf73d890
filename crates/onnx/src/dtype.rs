//! ONNX's element types against ours.

use plansmith_tensor::DType;

use crate::proto::tensor_proto::DataType;

const PAIRS: [(DType, DataType); 18] = [
    (DType::Bool, DataType::Bool),
    (DType::U8, DataType::Uint8),
    (DType::I8, DataType::Int8),
    (DType::U16, DataType::Uint16),
    (DType::I16, DataType::Int16),
    (DType::U32, DataType::Uint32),
    (DType::I32, DataType::Int32),
    (DType::U64, DataType::Uint64),
    (DType::I64, DataType::Int64),
    (DType::F16, DataType::Float16),
    (DType::BF16, DataType::Bfloat16),
    (DType::F32, DataType::Float),
    (DType::F64, DataType::Double),
    (DType::F8E4M3, DataType::Float8e4m3fn),
    (DType::F8E5M2, DataType::Float8e5m2),
    (DType::F8E8M0, DataType::Float8e8m0),
    (DType::F4, DataType::Float4e2m1),
    (DType::C64, DataType::Complex64),
];

/// The number that `TensorProto.data_type` and `TypeProto.Tensor.elem_type` hold for `dtype`; `None` where ONNX has no such type.
pub fn data_type(dtype: DType) -> Option<i32> {
    PAIRS.iter().find(|pair| pair.0 == dtype).map(|pair| pair.1 as i32)
}

/// The dtype that ONNX means by `number`; `None` for types that a safetensors file cannot hold.
pub fn dtype(number: i32) -> Option<DType> {
    PAIRS.iter().find(|pair| pair.1 as i32 == number).map(|pair| pair.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from `onnx.TensorProto` of PyPI `onnx` 1.23.2.
    #[test]
    fn numbers_are_those_of_the_standard() {
        assert_eq!(data_type(DType::F32), Some(1));
        assert_eq!(data_type(DType::I64), Some(7));
        assert_eq!(data_type(DType::Bool), Some(9));
        assert_eq!(data_type(DType::F16), Some(10));
        assert_eq!(data_type(DType::BF16), Some(16));
        assert_eq!(data_type(DType::F8E4M3), Some(17));
        assert_eq!(data_type(DType::F6E2M3), None);
        assert_eq!(dtype(6), Some(DType::I32));
        assert_eq!(dtype(8), None);
        assert_eq!(dtype(-1), None);
    }
}
