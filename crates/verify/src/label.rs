//! Dtypes as users name them: `fp32`, `bf16`, `int8`.

use plansmith_tensor::DType;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// The name that flags, pipeline files and `verdict.json` use: `fp32` for F32, `int8` for I8, `bf16` for BF16.
pub fn dtype_label(dtype: DType) -> String {
    let name = dtype.name();
    let bits = |letter: char| name.strip_prefix(letter).filter(|bits| bits.bytes().all(|byte| byte.is_ascii_digit()));
    // F4 is no IEEE format and keeps its name.
    match (bits('F').filter(|bits| bits.len() > 1), bits('I')) {
        (Some(bits), _) => format!("fp{bits}"),
        (_, Some(bits)) => format!("int{bits}"),
        _ => name.to_ascii_lowercase(),
    }
}

pub(crate) fn serialize<S: Serializer>(dtype: &DType, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&dtype_label(*dtype))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DType, D::Error> {
    let label = String::deserialize(deserializer)?;
    let name = match (label.strip_prefix("fp"), label.strip_prefix("int")) {
        (Some(bits), _) => format!("F{bits}"),
        (_, Some(bits)) => format!("I{bits}"),
        _ => label.to_ascii_uppercase(),
    };
    name.parse().map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_of_the_command_line_and_go_both_ways() {
        for (dtype, label) in
            [(DType::F32, "fp32"), (DType::F16, "fp16"), (DType::BF16, "bf16"), (DType::I8, "int8"), (DType::F4, "f4"), (DType::U8, "u8")]
        {
            assert_eq!(dtype_label(dtype), label);
            let json = serde_json::Value::String(label.to_owned());
            assert_eq!(deserialize(json).unwrap(), dtype);
        }
    }
}
