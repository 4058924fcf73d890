//! ONNX protobuf types, encoding, decoding and external-data references.
