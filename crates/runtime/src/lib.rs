//! Sessions over rten, ONNX Runtime and the TensorRT worker.
