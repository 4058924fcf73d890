//! Typed ONNX graph builder.
