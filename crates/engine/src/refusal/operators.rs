//! Operators by name, as the parser of TensorRT for RTX 1.7.1 answered `supportsOperator` and as graphs of one node each fared.

/// Of the standard's operators up to opset 26, those that the parser has no import for.
const MISSING: [&str; 46] = [
    "AffineGrid",
    "Bernoulli",
    "BitCast",
    "BitShift",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "CenterCropPad",
    "Col2Im",
    "Compress",
    "ConcatFromSequence",
    "ConvInteger",
    "CumProd",
    "DFT",
    "DeformConv",
    "Det",
    "DynamicQuantizeLinear",
    "ImageDecoder",
    "MatMulInteger",
    "MaxRoiPool",
    "MaxUnpool",
    "MelWeightMatrix",
    "Multinomial",
    "NegativeLogLikelihoodLoss",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "QLinearConv",
    "QLinearMatMul",
    "RegexFullMatch",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SequenceMap",
    "SoftmaxCrossEntropyLoss",
    "SplitToSequence",
    "StringConcat",
    "StringNormalizer",
    "StringSplit",
    "SwiGLU",
    "TfIdfVectorizer",
    "Unique",
];

/// Whether the standard has this operator and the parser does not.
pub(super) fn is_missing(operator: &str) -> bool {
    MISSING.binary_search(&operator).is_ok()
}

/// What becomes of an operator that is not the standard's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    /// The parser reads it and the builder builds it, or the parser says what it lacks.
    Taken,
    /// The parser knows it and wants a plugin that the libraries do not hold.
    Plugin,
    /// Nobody knows it.
    Unknown,
}

/// Of `domain`, which is not the standard's.
pub(super) fn foreign(domain: &str, operator: &str) -> Foreign {
    match (domain, operator) {
        (
            "com.microsoft",
            "SkipSimplifiedLayerNormalization"
            | "SimplifiedLayerNormalization"
            | "RotaryEmbedding"
            | "MultiHeadAttention"
            | "Gelu"
            | "Trilu"
            | "QuantizeLinear"
            | "DequantizeLinear",
        ) => Foreign::Taken,
        ("com.microsoft", "GroupQueryAttention" | "MatMulNBits" | "QMoE" | "LinearAttention" | "CausalConvWithState") => Foreign::Plugin,
        // TensorRT's own, as its quantisation toolkit writes them.
        (_, operator) if operator.starts_with("TRT_") => Foreign::Taken,
        _ => Foreign::Unknown,
    }
}

/// Whether the operator's weights are quantised in a form of its own.
pub(super) fn is_quantised(operator: &str) -> bool {
    matches!(
        operator,
        "MatMulNBits"
            | "MatMulBnb4"
            | "QMoE"
            | "GatherBlockQuantized"
            | "QAttention"
            | "MatMulInteger"
            | "ConvInteger"
            | "QLinearMatMul"
            | "QLinearConv"
            | "DynamicQuantizeLinear"
            | "DynamicQuantizeMatMul"
            | "MatMulIntegerToFloat"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_searched() {
        assert!(MISSING.is_sorted());
        assert!(is_missing("Unique") && is_missing("AffineGrid") && !is_missing("Attention"));
    }
}
