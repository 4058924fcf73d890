//! Inputs and outputs as text.

use std::fmt::Write as _;

use plansmith_tensor::{Signature, TensorSignature};

/// `[batch, 2, past, 16]`.
pub(super) fn shape(shape: &[Result<u64, String>]) -> String {
    let dims: Vec<String> = shape.iter().map(|dim| dim.as_ref().map_or_else(Clone::clone, u64::to_string)).collect();
    format!("[{}]", dims.join(", "))
}

/// A line an input and output; those that differ in a number alone share one.
pub(crate) fn listing(signature: &Signature) -> String {
    let mut text = String::new();
    for (kind, tensors) in [("input ", &signature.inputs), ("output", &signature.outputs)] {
        let mut lines: Vec<(String, &TensorSignature, usize)> = Vec::new();
        for tensor in tensors {
            let pattern = format!("{} {}{}", starred(&tensor.name), tensor.dtype, shape(&tensor.shape));
            match lines.iter_mut().find(|line| line.0 == pattern) {
                Some(line) => line.2 += 1,
                None => lines.push((pattern, tensor, 1)),
            }
        }
        for (pattern, tensor, count) in lines {
            // Writing to a String cannot fail.
            let _ = match count {
                1 => writeln!(text, "  {kind} {} {}{}", tensor.name, tensor.dtype, shape(&tensor.shape)),
                _ => writeln!(text, "  {kind} {pattern} ({count} of them)"),
            };
        }
    }
    text
}

/// `name` with its first number as `*`.
fn starred(name: &str) -> String {
    let Some(start) = name.find(|character: char| character.is_ascii_digit()) else { return name.to_owned() };
    let rest = name[start..].trim_start_matches(|character: char| character.is_ascii_digit());
    format!("{}*{rest}", &name[..start])
}

#[cfg(test)]
mod tests {
    use plansmith_tensor::DType;

    use super::*;

    #[test]
    fn layers_share_a_line() {
        let tensor = |name: &str, shape: &[Option<u64>]| TensorSignature {
            name: name.to_owned(),
            dtype: DType::F32,
            shape: shape.iter().map(|dim| dim.ok_or_else(|| "n".to_owned())).collect(),
        };
        let inputs = vec![tensor("x", &[None]), tensor("p.0.k", &[None, Some(2)]), tensor("p.1.k", &[None, Some(2)])];
        let signature = Signature { inputs, outputs: vec![tensor("y.3", &[Some(1)])] };
        assert_eq!(listing(&signature), "  input  x F32[n]\n  input  p.*.k F32[n, 2] (2 of them)\n  output y.3 F32[1]\n");
    }
}
