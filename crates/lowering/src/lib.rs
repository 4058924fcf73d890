//! DecoderSpec and target to ONNX graph and weight plan.
